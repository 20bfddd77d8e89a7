"""Stop a run on a signal such as Ctrl-C, after a checkpoint."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.signals import handle_on_a_stack_of_their_own, stopping_signals

Handler = Callable[[int, FrameType | None], object] | int | None
"""A handler as signal.getsignal returns it: a function, SIG_DFL, SIG_IGN, or None for a handler written in C."""


class StopRequest:
    """Records SIGINT, SIGTERM or SIGHUP as a request to stop, so that the training can write a checkpoint first.

    holding: whether a signal is only recorded. If false, a signal ends the run at once, and so does a second signal.
    received: number of the first signal, or None. Under nohup, SIGHUP stays ignored.
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
        """Install the handlers. Do nothing outside the main thread, because Python allows handlers only there."""
        if threading.current_thread() is not threading.main_thread():
            return
        handle_on_a_stack_of_their_own()
        if not self._previous:
            self._previous = {number: signal.getsignal(number) for number in stopping_signals()}
        for number in self._previous:  # replaces Lightning's handlers, which stop a run in another way
            signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        again = self.received is not None
        self.received = self.received or number
        if again or not self.holding:
            raise Stopped(self.received)
