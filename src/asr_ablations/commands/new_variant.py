"""Write the Python file and the yaml file of your own variant, as copies of the files of an existing option.

asr-ablations new rnn mine                  variants/rnn/mine.py and conf/rnn/mine.yaml in this folder, for -cd conf
asr-ablations new rnn mine --like min_gru   the same files, copied from the option min_gru
asr-ablations new callbacks mine            your own Lightning callback

python src/new.py writes them into src/asr_ablations/components/ and conf/.
"""

import argparse
import ast
import io
import re
import tokenize
from pathlib import Path

from asr_ablations.commands.console import exit_code
from asr_ablations.config.targets import groups, options_by_name
from asr_ablations.tools.files import CONF, PACKAGE, REPOSITORY, SOURCE, is_command, typed
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import write

OTHERS = ("benchmark", "recipe")  # groups whose options are not components
OURS = "asr_ablations.components."
TEMPLATES = {"rnn": "gru", "norm": "layer", "data": "kaldi"}
"""Options to copy in some groups. In the others it is the option with the least code."""
NATIVE = "native_cell"
"""Method that is not copied: it replaces `forward`, so changes to a copied `forward` would do nothing."""
NEXT = {
    "condition": ("evaluate", "", "run=<run> conditions=[{name},clean]", "to evaluate a run"),
    "data": ("prepare", "", "data={name} data.root=<folder>", "to check every recording"),
    "debug": ("train", "", "debug={name}", "for a run, which is never an arm"),
    "callbacks": ("train", "-m ", "callbacks=none,{name}", "for an ablation"),
}
"""The command to propose after `check`, with -m, overrides and purpose, for groups whose options are not plain arms."""
USER_PACKAGE = "variants"  # package for the user's classes, next to the user's conf/


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 2 after a user's mistake."""
    options = parser().parse_args(arguments)
    return exit_code(lambda: new(options.group, options.name, options.like, force=options.force))


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("group", help="group of the option: a folder of conf/, such as rnn")
    arguments.add_argument("name", help="name of the new option in lower case, chosen with rnn=<name>")
    arguments.add_argument("--like", metavar="OPTION", help="option to copy (default: a short one of the group)")
    arguments.add_argument("--force", action="store_true", help="replace files of this name that exist")
    return arguments


def new(group: str, name: str, like: str | None, *, force: bool = False) -> int:
    """Write a variant's files and print the next steps. Raise UsageError if the name is taken or not in lower case."""
    allowed = [other for other in groups() if other not in OTHERS]
    if group not in allowed:
        raise choices("group", group, allowed)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise choices("name", name, "a name in lower case, such as mine")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    targets = {option: str(node["_target_"]) for option, node in options_by_name(group).items()}
    like = like or TEMPLATES.get(group) or min(targets, key=lambda option: len(_read_source(targets[option])))
    if like not in targets:
        raise choices("--like", like, list(targets))
    in_package = not is_command()
    package = OURS if in_package else f"{USER_PACKAGE}."
    python = (PACKAGE / "components" if in_package else Path(USER_PACKAGE)) / group / f"{name}.py"
    yaml = (REPOSITORY if in_package else Path()) / "conf" / group / f"{name}.yaml"
    for file in (CONF / group / f"{name}.yaml", python, yaml):
        if file.exists() and (not force or (file.is_relative_to(CONF) and not python.exists())):
            remedy = "" if file.is_relative_to(CONF) and not in_package else "; --force replaces it"
            raise UsageError(f"{group}={name}: {file} already exists{remedy}")
    attribute = targets[like].rpartition(".")[2]
    if attribute[0].isupper():
        attribute = class_name
    config = (CONF / group / f"{like}.yaml").read_text(encoding="utf-8")
    config = config.replace(targets[like], f"{package}{group}.{name}.{attribute}")
    for file, text in ((python, _copy(targets[like], f"{group}={like}", class_name)), (yaml, config)):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, text.replace(f"{group}.{like}.", f"{group}.{name}."))
        print(f"wrote {file}")
    where = "" if in_package else "-cd conf "
    print(f"copied from {group}={like}; change the files, then run")
    if group != "condition":
        print(f"  {typed('check')} {where}{group}={name}    to check them against the group's contract")
    default = ("train", "-m ", f"{group}={name},{like}", "for an ablation")
    command, several, words, purpose = NEXT.get(group, default)
    print(f"  {typed(command)} {several}{where}{words.format(name=name)}    {purpose}")
    return 0


def _read_source(target: str) -> str:
    """Return the source of the module of an option's class; "" if the class is torch's own."""
    module = target.rpartition(".")[0]
    return (SOURCE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8") if module.startswith(OURS) else ""


def _copy(target: str, option: str, class_name: str) -> str:
    """Return the source of an option's class under a new name; for a torch class, a subclass with this name."""
    module, _, name = target.rpartition(".")
    title = f'"""A copy of {option}: say here what it changes."""'
    if not (source := _read_source(target)):
        changed = f'class {class_name}({name}):\n    """Like {module}.{name}, with my changes."""\n'
        return f"{title}\n\nfrom {module} import {name}\n\n\n{changed}"
    tree = ast.parse(source)
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == NATIVE]
    imports = [
        node for node in tree.body if methods and isinstance(node, ast.ImportFrom) and "native" in str(node.module)
    ]
    gone = {line for node in (*methods, *imports) for line in range(node.lineno - 1, (node.end_lineno or 0) + 1)}
    heading = range(1, (tree.body[0].end_lineno or 1) + 1)
    lines = source.splitlines(keepends=True)
    kept = [line for number, line in enumerate(lines, 1) if number not in gone and number not in heading]
    copied = f"{title}\n{''.join(kept)}"
    return _rename(copied, name, class_name) if name[0].isupper() else copied


def _rename(source: str, name: str, new_name: str) -> str:
    """Rename a class in a source. Comments, strings and attributes such as nn.GRU keep the old name."""
    lines, before = source.splitlines(keepends=True), ""
    places = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.string == name and before != ".":
            places.append(token.start)
        before = token.string
    for row, column in reversed(places):
        line = lines[row - 1]
        lines[row - 1] = f"{line[:column]}{new_name}{line[column + len(name) :]}"
    return "".join(lines)
