"""A command in a terminal of 80 columns, as a user sees it."""

import contextlib
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path

from tests.helpers.interpreter import REPOSITORY, last_of_each

COLUMNS, LINES = 80, 40
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """What a command wrote to its terminal. codes: all of it; exit_code: once it has ended."""

    codes, exit_code = "", -1

    @property
    def text(self) -> str:
        """Without what moves the cursor and colours."""
        return CODES.sub("", self.codes).replace("\r\n", "\n")

    @property
    def last_lines(self) -> list[str]:
        """What is left to see: later writes stand over earlier ones, as a terminal shows them."""
        lines, row, column = [""], 0, 0
        for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", self.codes):
            if part == "\n":
                row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
            elif part == "\r":
                column = 0
            elif part.startswith("\x1b[") and part.endswith("A"):
                row = max(0, row - int(re.sub(r"\D", "", part) or 1))
            elif part.startswith("\x1b[") and part.endswith("K"):
                lines[row] = "" if part == "\x1b[2K" else lines[row][:column]
            elif part and not part.startswith("\x1b["):
                line = lines[row].ljust(column)
                lines[row], column = line[:column] + part + line[column + len(part) :], column + len(part)
        return [line.rstrip() for line in lines]


def in_a_terminal(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, interrupt_at: str | None = None
) -> Screen:
    """Run `python <words>` to its end; interrupt_at: Ctrl-C once the terminal shows this text."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    known = {key: value for key, value in environment.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, *(str(REPOSITORY / w) if w.startswith("src/") else w for w in last_of_each(words))],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env={**known, "TERM": "xterm-256color"},
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    screen = Screen()
    with open(ours, "rb", buffering=0) as stream, contextlib.suppress(OSError):  # the last who could write has ended
        while part := stream.read(2**16):
            screen.codes += part.decode("utf-8", errors="replace")
            if interrupt_at is not None and interrupt_at in screen.text:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
    screen.exit_code = process.wait()
    return screen
