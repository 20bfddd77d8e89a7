"""Imported early by the server process that arms are forked from."""

import multiprocessing.spawn
import sys
from types import TracebackType

from asr_ablations.tools.errors import is_lack_of_memory


def say_unless_orphaned(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception as ever, but for that of a process whose launcher was killed before it had said what to do:
    there is nothing to do, and nobody did anything wrong. Of a server without memory for its imports, whoever waits for
    it says so in one line.
    """
    if is_lack_of_memory(error):
        return
    last = trace
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if kind is EOFError and last is not None and last.tb_frame.f_code.co_filename == multiprocessing.spawn.__file__:
        return
    sys.__excepthook__(kind, error, trace)


sys.excepthook = say_unless_orphaned
