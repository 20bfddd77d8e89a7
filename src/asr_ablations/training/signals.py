"""Signals that ask a run to stop."""

import signal
import threading
from types import FrameType
from typing import Any

from asr_ablations.tools.errors import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)


class StopRequest:
    """SIGINT, SIGTERM and SIGUSR2 as a request, while `holding`; at any other time, and the second time, they end the
    run at once.

    A cluster's launcher has handlers of its own: what it does about SIGTERM is left to it, and its handler of SIGUSR2,
    the warning before the time is up, is called when the checkpoint is written (submitit's puts the job in the queue
    again).
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.holding = False
        self._before: dict[int, Any] = {}
        self._ours: list[int] = []

    def listen(self) -> None:
        """Take the signals over. Only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            return
        if not self._before:
            self._before = {number: signal.getsignal(number) for number in SIGNALS}
            self._ours = [number for number, handler in self._before.items() if _is_for_us(number, handler)]
        for number, handler in self._before.items():  # Lightning's handlers are for its own way of stopping
            signal.signal(number, self._receive if number in self._ours else handler)

    def close(self) -> None:
        """Give the signals back, and the one that was received to whom it was meant for."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.received == signal.SIGUSR2:
            self._before[self.received](self.received, None)
        self._before = {}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        again, self.received = self.received is not None, number
        if again or not self.holding:
            raise Stopped(number)


def _is_for_us(number: int, handler: Any) -> bool:
    if number == signal.SIGTERM:  # or what an earlier fit of Lightning's has left behind
        return handler is signal.SIG_DFL or type(handler).__module__.startswith("pytorch_lightning")
    return number == signal.SIGINT or callable(handler)
