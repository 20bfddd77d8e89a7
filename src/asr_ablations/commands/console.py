"""The command that an installed package brings: `asr-ablations train rnn=gru` is `python src/train.py rnn=gru`."""

import ast
import difflib
import runpy
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from asr_ablations.runs.status import ending
from asr_ablations.tools.files import REPOSITORY, SCRIPTS, version
from asr_ablations.tools.machine import check_surroundings, name_the_user
from asr_ablations.tools.signals import end_at_once_on_another, ignored_at_the_end
from asr_ablations.tools.streams import open_streams
from asr_verdicts.terminal import forgive_characters, harmless

INTERRUPTED = 128 + signal.SIGINT


def as_folder(word: str) -> str:
    """A folder as it is typed: alone, or behind run= as the commands with Hydra want it."""
    return word.removeprefix("run=")


def exit_code(work: Callable[[], int]) -> int:
    """The exit code of `work`: its own; 2 for a mistake of the user's, which is printed as one line; 130 for Ctrl-C; 1
    where the reader of the output has gone away, as in … | head.
    """
    ignored_at_the_end()
    open_streams()
    forgive_characters()
    name_the_user()
    try:
        check_surroundings()
        return work()
    except KeyboardInterrupt:
        end_at_once_on_another(INTERRUPTED)
        print("interrupted; the same command continues", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if (end := ending(error)) is None:
            raise
        line, code = end
        if line:
            print(harmless(f"error: {line}"), file=sys.stderr)
        return code


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
        known = sorted(path.stem for path in SCRIPTS.glob("*.py"))
        near = difflib.get_close_matches(name, known, n=1)
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
