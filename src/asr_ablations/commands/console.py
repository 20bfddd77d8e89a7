"""The command `asr-ablations`: `asr-ablations train …` runs `python src/train.py …`."""

import ast
import itertools
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from asr_ablations.runs.command import prepare_command, report_end
from asr_ablations.tools.files import AS_COMMAND, REPOSITORY, SCRIPTS, version


def as_folder(word: str) -> str:
    """Remove a leading run= from an argument, because some other commands expect folders in this form."""
    return word.removeprefix("run=")


def exit_code(work: Callable[[], int]) -> int:
    """Call `work` and return its exit code. If it raises an exception, report it in one line and return its code."""
    prepare_command()
    try:
        return work()
    except (KeyboardInterrupt, Exception) as error:
        return report_end(error)


def main() -> int:
    """Run the script that the first argument names, with sys.argv as if it had been started directly."""
    name, *arguments = sys.argv[1:] or ["--help"]
    script = SCRIPTS / f"{name}.py"
    if name in ("-h", "--help", "--version"):
        print(version() if name == "--version" else _usage())
        return 0
    if "/" in name or not script.is_file():
        print(f"error: {name}: there is no such command; expected one of these\n\n{_usage()}", file=sys.stderr)
        return 2
    sys.argv = [str(script), *_resolve_sweeps(arguments)]
    os.environ[AS_COMMAND] = name
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        del os.environ[AS_COMMAND]
    return 0


def _resolve_sweeps(arguments: Sequence[str]) -> list[str]:
    """Replace a missing folder after -cd, such as `sweeps`, with the folder of that name in this package, if any."""
    words = list(arguments)
    for place, (option, folder) in enumerate(itertools.pairwise(words), 1):
        if option in ("-cd", "--config-dir") and not Path(folder).is_dir() and (REPOSITORY / folder).is_dir():
            words[place] = str(REPOSITORY / folder)
    return words


def _usage() -> str:
    lines = ["asr-ablations COMMAND …   (COMMAND --help explains more)", ""]
    for script in sorted(SCRIPTS.glob("*.py")):
        summary = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        lines.append(f"  {script.stem:<12} {summary.splitlines()[0]}")
    return "\n".join(lines)
