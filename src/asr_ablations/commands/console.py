"""The command that an installed package brings: `asr-ablations train rnn=gru` is `python src/train.py rnn=gru`."""

import ast
import difflib
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from asr_ablations.runs.command import prepare_command, report_end
from asr_ablations.tools.files import REPOSITORY, SCRIPTS, version


def as_folder(word: str) -> str:
    """A folder as it is typed: alone, or behind run= as the commands with Hydra want it."""
    return word.removeprefix("run=")


def exit_code(work: Callable[[], int]) -> int:
    """The exit code of `work`: its own, or of the error that ended it."""
    prepare_command()
    try:
        return work()
    except (KeyboardInterrupt, Exception) as error:
        return report_end(error)


FOLDER_OF_CONFIGS = ("-cd", "--config-dir")


def main() -> int:
    """Run the script that the first word names, as if it had been started itself: its arms start it again."""
    name, *arguments = sys.argv[1:] or ["--help"]
    script = SCRIPTS / f"{name}.py"
    if name == "--version":
        print(version())
        return 0
    if name in ("-h", "--help"):
        print(_usage())
        return 0
    if "/" in name or not script.is_file():
        names = sorted(path.stem for path in SCRIPTS.glob("*.py"))
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"nearest: {near[0]}" if near else "these are"
        print(f"error: {name}: there is no such command; {hint}\n", file=sys.stderr)
        print(_usage(), file=sys.stderr)
        return 2
    sys.argv = [str(script), *_with_own_sweeps(arguments)]
    runpy.run_path(str(script), run_name="__main__")
    return 0


def _with_own_sweeps(arguments: Sequence[str]) -> list[str]:
    """The arguments, in which `-cd sweeps` means the sweeps of this package where there is no such folder."""
    before = ["", *arguments]
    return [
        str(REPOSITORY / word)
        if previous in FOLDER_OF_CONFIGS and not Path(word).is_dir() and (REPOSITORY / word).is_dir()
        else word
        for previous, word in zip(before, arguments, strict=False)
    ]


def _usage() -> str:
    lines = ["asr-ablations COMMAND …   each has a --help of its own", ""]
    for script in sorted(SCRIPTS.glob("*.py")):
        summary = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        lines.append(f"  {script.stem:<12} {summary.splitlines()[0]}")
    return "\n".join(lines)
