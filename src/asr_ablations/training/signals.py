"""Signals that ask a run to stop."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.signals import handle_on_a_stack_of_their_own, stopping_signals

Handler = Callable[[int, FrameType | None], object] | int | None
"""Result of signal.getsignal: a function, SIG_DFL or SIG_IGN, or None for a handler in C."""


class StopRequest:
    """Holds SIGINT, SIGTERM or SIGHUP as a request to stop while `holding`.

    At other times a signal ends the run at once; so does a second one. Under nohup, SIGHUP stays ignored.
    received: number of the first signal, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.holding = False
        self._previous: dict[int, Handler] = {}

    def __enter__(self) -> "StopRequest":
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._previous.items():
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

    def _receive(self, number: int, frame: FrameType | None) -> None:
        again = self.received is not None
        self.received = self.received or number
        if again or not self.holding:
            raise Stopped(self.received)
