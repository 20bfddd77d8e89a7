"""Stop a run on a signal such as Ctrl-C, after a checkpoint."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.signals import handle_on_a_stack_of_their_own, interrupt, stopping_signals

Handler = Callable[[int, FrameType | None], object] | int | None
"""A handler as signal.getsignal returns it: a function, SIG_DFL, SIG_IGN, or None for a handler written in C."""


class StopRequest:
    """Records SIGINT, SIGTERM or SIGHUP as a request to stop, so that the training can write a checkpoint first.

    holding: whether a signal is only recorded. If false, a signal ends the run at once, and so does a second signal.
    received: number of the first signal, or None. Under nohup, SIGHUP stays ignored.

    While a stopped run ends, another signal ends the process: a second exception would be printed with its traceback.
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
        """Install the handlers. Do nothing outside the main thread, because Python allows handlers only there."""
        if threading.current_thread() is not threading.main_thread():
            return
        handle_on_a_stack_of_their_own()
        if not self._previous:
            self._previous = {number: signal.getsignal(number) for number in stopping_signals()}
        for number in self._previous:  # replaces Lightning's handlers, which stop a run in another way
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
