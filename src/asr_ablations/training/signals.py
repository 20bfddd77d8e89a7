"""Signals that ask a run to stop."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.signals import handle_on_a_stack_of_their_own, interrupt, stopping_signals

Handler = Callable[[int, FrameType | None], object] | int | None
"""Result of signal.getsignal: a function, SIG_DFL or SIG_IGN, or None for a handler in C."""


class StopRequest:
    """Holds SIGINT, SIGTERM or SIGHUP as a request to stop while `holding`.

    At other times a signal ends the run at once; so does a second one. Any further signal ends the process: an
    exception in the middle of the handling of the first would be printed. Under nohup, SIGHUP stays ignored.
    received: number of the first signal, or None.
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
        """Restore the previous handlers. In a command that was stopped, another Ctrl-C still ends the process."""
        for number, handler in self._previous.items():
            if not (self._stopping and handler is interrupt):
                signal.signal(number, handler)

    def listen(self) -> None:
        """Install the handlers. Python allows this in the main thread only; elsewhere it does nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        handle_on_a_stack_of_their_own()
        if not self._previous:
            self._previous = {number: signal.getsignal(number) for number in stopping_signals()}
        for number in self._previous:  # Lightning's handlers are for its own way of stopping
            signal.signal(number, self._receive)

    def raise_stopped(self, number: int) -> NoReturn:
        """Raise Stopped."""
        self._stopping = True
        raise Stopped(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            os._exit(128 + (self.received or number))
        again = self.received is not None
        self.received = self.received or number
        if again or not self.holding:
            self.raise_stopped(self.received)
