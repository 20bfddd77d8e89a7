"""Write the Python file and the yaml file of your own variant, as copies of the files of an existing option.

asr-ablations new rnn mine                  variants/rnn/mine.py and conf/rnn/mine.yaml in this folder, for -cd conf
asr-ablations new rnn mine --like min_gru   the same files, copied from the option min_gru

In a checkout, python src/new.py writes them into src/asr_ablations/components/ and conf/.
"""

import argparse
import re
from pathlib import Path

from asr_ablations.commands.console import exit_code
from asr_ablations.config.targets import groups, options_by_name
from asr_ablations.tools.files import CARRIED, CONF, PACKAGE, REPOSITORY, SOURCE, typed
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import write

OTHERS = ("benchmark", "recipe")  # groups whose options are not components
OURS = "asr_ablations.components."
NATIVE = "native_cell"
"""Options with this method are not copied: it replaces `forward`, so changes to a copied `forward` would do nothing."""
USER_PACKAGE = "variants"  # package for the user's classes, next to the user's conf/


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code: 2 after a user's mistake."""
    options = parser().parse_args(arguments)
    return exit_code(lambda: new(options.group, options.name, options.like))


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("group", help="group of the option: a folder of conf/, such as rnn")
    arguments.add_argument("name", help="name of the new option in lower case, chosen with rnn=<name>")
    arguments.add_argument("--like", metavar="OPTION", help="option to copy (default: the option with the least code)")
    return arguments


def new(group: str, name: str, like: str | None) -> int:
    """Write a variant's files and print the next steps. Raise UsageError if the name is taken or not in lower case."""
    allowed = [other for other in groups() if other not in OTHERS]
    if group not in allowed:
        raise choices("group", group, allowed)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise choices("name", name, "a name in lower case, such as mine")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    sources = _copy_sources(group, class_name)
    like = like or min(sources, key=lambda option: len(sources[option]))
    if like not in sources:
        raise choices("--like", like, list(sources))
    in_package = REPOSITORY != CARRIED
    package = OURS if in_package else f"{USER_PACKAGE}."
    python = (PACKAGE / "components" if in_package else Path(USER_PACKAGE)) / group / f"{name}.py"
    yaml = (REPOSITORY if in_package else Path()) / "conf" / group / f"{name}.yaml"
    for file in (CONF / group / f"{name}.yaml", python, yaml):
        if file.exists():
            raise UsageError(f"{group}={name}: {file} already exists")
    target = str(options_by_name(group)[like]["_target_"])
    attribute = target.rpartition(".")[2] if target.startswith(OURS) else class_name
    config = (CONF / group / f"{like}.yaml").read_text(encoding="utf-8")
    config = config.replace(target, f"{package}{group}.{name}.{attribute}")
    for file, text in ((python, sources[like]), (yaml, config)):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, text)
        print(f"wrote {file}")
    where = "" if in_package else "-cd conf "
    print(f"copied from {group}={like}; change the files, then run")
    if group == "condition":
        print(f"  {typed('evaluate')} {where}run=<run> conditions=[{name},{like}]    to evaluate a run")
        return 0
    print(f"  {typed('check')} {where}{group}={name}    to check them against the group's contract")
    print(f"  {typed('train')} -m {where}{group}={name},{like}    for an ablation")
    return 0


def _copy_sources(group: str, class_name: str) -> dict[str, str]:
    """Return the source code to copy for each option. For a torch class, it is a new subclass named `class_name`."""
    sources = {}
    for option, node in options_by_name(group).items():
        module, _, name = str(node["_target_"]).rpartition(".")
        if not module.startswith(OURS):
            title = f'"""Variant of the option {option}, which is a torch class."""'
            changed = f'class {class_name}({name}):\n    """Like {module}.{name}, with my changes."""\n'
            sources[option] = f"{title}\n\nfrom {module} import {name}\n\n\n{changed}"
        else:
            file = SOURCE / f"{module.replace('.', '/')}.py"
            sources[option] = file.read_text(encoding="utf-8")
    return {option: source for option, source in sources.items() if NATIVE not in source}
