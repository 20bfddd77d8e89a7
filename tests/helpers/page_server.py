"""python src/transcribe.py serve=true in a process of its own."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.interpreter import start


def said(corpus: Path, number: int) -> tuple[Path, str]:
    """An utterance of the tiny corpus's training set, and its text."""
    folder = corpus / "train" / "10" / "1"
    line = (folder / "10-1.trans.txt").read_text(encoding="utf-8").splitlines()[number]
    return folder / f"{line.split()[0]}.flac", line.partition(" ")[2].lower()


@contextmanager
def serving(run: Path, *overrides: str) -> Iterator[str]:
    """Yield the address of the running page; afterwards one Ctrl-C must end it without a traceback."""
    words = ["src/transcribe.py", f"run={run}", "serve=true", "port=0", "gpus=0", *overrides]
    with start(words, os.environ) as command:
        line = next(command.lines("errors"), "")
        address = re.match(r"(http://127\.0\.0\.1:\d+) ", line)
        assert address, line + command.finish().stderr
        yield address[1]
        command.send_signal(signal.SIGINT)
        assert "Traceback" not in command.finish().stderr
