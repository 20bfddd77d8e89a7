"""Write the two files of a variant of your own, as a copy of an option that is there: a Python file and its yaml.

asr-ablations new rnn mine                  variants/rnn/mine.py and conf/rnn/mine.yaml in this folder, for -cd conf
asr-ablations new rnn mine --like min_gru   from this option

In a checkout, python src/new.py writes them into src/asr_ablations/components/ and conf/.
"""

import argparse
import re
from pathlib import Path

from asr_ablations.commands.console import exit_code
from asr_ablations.config.targets import groups, options_by_name
from asr_ablations.tools.files import CARRIED, CONF, PACKAGE, REPOSITORY, typed
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import write

OTHERS = ("benchmark", "recipe")  # groups without components
OURS = "asr_ablations.components."
NATIVE = "native_cell"
"""A method by which the native library computes in place of `forward`: a copy would not do what its text says."""
OWN = "variants"  # the package of a user's own classes, beside conf/


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 2 for a mistake of the user's."""
    options = parser().parse_args(arguments)
    return exit_code(lambda: new(options.group, options.name, options.like))


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("group", help="as rnn: a folder of conf/")
    arguments.add_argument("name", help="of the new option, in lower case: rnn=<name> chooses it")
    arguments.add_argument("--like", metavar="OPTION", help="the option that is copied (by default the shortest)")
    return arguments


def new(group: str, name: str, like: str | None) -> int:
    """Write the files and print what to do next. Raises UsageError for a name that is taken or is none of Python's."""
    allowed = [other for other in groups() if other not in OTHERS]
    if group not in allowed:
        raise choices("group", group, allowed)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise choices("name", name, "a name in lower case, as mine")
    if (CONF / group / f"{name}.yaml").exists():
        raise UsageError(f"{group}={name}: there is such an option already")
    sources = _copy_sources(group)
    if like is None:
        like = min(sources, key=lambda option: len(sources[option]))
    elif like not in sources:
        raise choices("--like", like, list(sources))
    in_package = REPOSITORY != CARRIED
    package = f"{OURS}{group}.{name}" if in_package else f"{OWN}.{group}.{name}"
    here = Path() if not in_package else REPOSITORY
    python = (PACKAGE / "components" if in_package else Path(OWN)) / group / f"{name}.py"
    yaml = here / "conf" / group / f"{name}.yaml"
    for file in (python, yaml):
        if file.exists():
            raise UsageError(f"{file}: it is there already")
    target = str(options_by_name(group)[like]["_target_"])
    source, attribute = sources[like], target.rpartition(".")[2]
    if not target.startswith(OURS):
        attribute = "".join(part.capitalize() for part in name.split("_"))
        source = source.replace("Own", attribute)
    config = (CONF / group / f"{like}.yaml").read_text(encoding="utf-8")
    for file, text in ((python, source), (yaml, config.replace(target, f"{package}.{attribute}"))):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, text)
        print(f"wrote {file}")
    where = "" if in_package else "-cd conf "
    print(f"copies of {group}={like}; change them, and then")
    print(f"  {typed('check')} {where}{group}={name}    against the contract of the group")
    print(f"  {typed('train')} -m {where}{group}={name},{like}    an ablation")
    return 0


def _copy_sources(group: str) -> dict[str, str]:
    """The source of a copy of each option; of a class of torch's, a class that is built upon it."""
    sources = {}
    for option, node in options_by_name(group).items():
        module, _, name = str(node["_target_"]).rpartition(".")
        if not module.startswith(OURS):
            title = f'"""{option} of torch, to be changed."""'
            changed = f'class Own({name}):\n    """{module}.{name} with a change of mine."""\n'
            sources[option] = f"{title}\n\nfrom {module} import {name}\n\n\n{changed}"
            continue
        file = PACKAGE / "components" / module.removeprefix(OURS).replace(".", "/")
        text = file.with_suffix(".py").read_text(encoding="utf-8")
        if NATIVE not in text:
            sources[option] = text
    return sources
