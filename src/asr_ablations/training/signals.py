"""Signals that tell a run to stop."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.signals import handle_on_a_stack_of_their_own, stopping_signals

Handler = Callable[[int, FrameType | None], object] | int | None
"""Result of signal.getsignal: a function, SIG_DFL or SIG_IGN, or None for a handler of C."""


class StopRequest:
    """SIGINT, SIGTERM and SIGHUP as a request while `holding`; at any other time, and when one comes a second time,
    they end the run at once. Under nohup, SIGHUP stays ignored.

    received: the number of the signal that came first, or None.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.holding = False
        self._previous: dict[int, Handler] = {}

    def __enter__(self) -> "StopRequest":
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def listen(self) -> None:
        """Install the handlers; does nothing outside the main thread, which alone may do so."""
        if threading.current_thread() is not threading.main_thread():
            return
        handle_on_a_stack_of_their_own()
        if not self._previous:
            self._previous = {number: signal.getsignal(number) for number in stopping_signals()}
        for number in self._previous:  # Lightning's handlers are for its own way of stopping
            signal.signal(number, self._receive)

    def close(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        again = self.received is not None
        self.received = self.received or number
        if again or not self.holding:
            raise Stopped(self.received)
