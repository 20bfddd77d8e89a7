"""The installed package's command: `asr-ablations train rnn=gru` runs `python src/train.py rnn=gru`."""

import ast
import difflib
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from asr_ablations.runs.command import prepare_command, report_end
from asr_ablations.tools.files import REPOSITORY, SCRIPTS, version


def as_folder(word: str) -> str:
    """Take a folder as it is typed: alone, or after run= as in the commands with Hydra."""
    return word.removeprefix("run=")


def exit_code(work: Callable[[], int]) -> int:
    """Call `work`; return its exit code, or the code of the error that ended it."""
    prepare_command()
    try:
        return work()
    except (KeyboardInterrupt, Exception) as error:
        return report_end(error)


FOLDER_OF_CONFIGS = ("-cd", "--config-dir")


def main() -> int:
    """Run the script that the first word names, as if started directly, because its arms start it again."""
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
        hint = f"nearest: {near[0]}" if near else "expected one of these"
        print(f"error: {name}: there is no such command; {hint}\n", file=sys.stderr)
        print(_usage(), file=sys.stderr)
        return 2
    sys.argv = [str(script), *_resolve_sweeps(arguments)]
    runpy.run_path(str(script), run_name="__main__")
    return 0


def _resolve_sweeps(arguments: Sequence[str]) -> list[str]:
    """Make `-cd sweeps` mean the sweeps of this package if there is no such folder."""
    before = ["", *arguments]
    return [
        str(REPOSITORY / word)
        if previous in FOLDER_OF_CONFIGS and not Path(word).is_dir() and (REPOSITORY / word).is_dir()
        else word
        for previous, word in zip(before, arguments, strict=False)
    ]


def _usage() -> str:
    lines = ["asr-ablations COMMAND …   (COMMAND --help explains more)", ""]
    for script in sorted(SCRIPTS.glob("*.py")):
        summary = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        lines.append(f"  {script.stem:<12} {summary.splitlines()[0]}")
    return "\n".join(lines)
