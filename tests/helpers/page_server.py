"""python src/transcribe.py serve=true in a process of its own."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.support import REPOSITORY


def said(corpus: Path, number: int) -> tuple[Path, str]:
    """An utterance of the tiny corpus's training set, and its text."""
    folder = corpus / "train" / "10" / "1"
    line = (folder / "10-1.trans.txt").read_text(encoding="utf-8").splitlines()[number]
    return folder / f"{line.split()[0]}.flac", line.partition(" ")[2].lower()


@contextmanager
def serving(run: Path, *overrides: str) -> Iterator[str]:
    """Yield the address of the running page; afterwards one Ctrl-C must end it without a traceback."""
    command = [sys.executable, "src/transcribe.py", f"run={run}", "serve=true", "port=0", "gpus=0", *overrides]
    process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        address = re.match(r"(http://127\.0\.0\.1:\d+) ", line)
        assert address, line + process.stderr.read()
        yield address[1]
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[1]
    assert "Traceback" not in rest
