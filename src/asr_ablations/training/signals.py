"""Stop a run after a signal such as Ctrl-C, but write a checkpoint first."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.machine import awake
from asr_ablations.tools.signals import handle_on_a_stack_of_their_own, interrupt, stopping_signals

Handler = Callable[[int, FrameType | None], object] | int | None
"""A handler as signal.getsignal returns it: a function, SIG_DFL, SIG_IGN, or None for a handler written in C."""


class StopRequest:
    """Records SIGINT, SIGTERM or SIGHUP as a request to stop, so training can write a checkpoint first.

    holding: whether the first signal is only recorded. If not, it ends the run at once. A second signal always does.
    received: number of the first signal, or None if there was none. Under nohup, SIGHUP stays ignored.

    While a run is stopping, another signal ends the process at once, because an exception would print a traceback.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.holding = False
        self._stopping = False  # whether Stopped has been raised
        self._previous: dict[int, Handler] = {}

    def __enter__(self) -> "StopRequest":
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous handlers. While a command is stopping, another Ctrl-C still ends the process."""
        for number, handler in self._previous.items():
            if not (self._stopping and handler is interrupt):
                signal.signal(number, handler)

    def listen(self) -> None:
        """Install the signal handlers if this is the main thread. Python does not allow it in other threads."""
        if threading.current_thread() is not threading.main_thread():
            return
        handle_on_a_stack_of_their_own()
        awake.listen()
        if not self._previous:
            self._previous = {number: signal.getsignal(number) for number in stopping_signals()}
        for number in self._previous:  # this also replaces Lightning's handlers, which would stop a run differently
            signal.signal(number, self._receive)

    def raise_stopped(self, number: int) -> NoReturn:
        """Raise Stopped. From then on, a signal ends the process at once."""
        self._stopping = True
        raise Stopped(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            os._exit(128 + (self.received or number))
        again = self.received is not None
        self.received = self.received or number
        if again or not self.holding:
            self.raise_stopped(self.received)
