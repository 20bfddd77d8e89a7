"""Signals that tell a run to stop."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.signals import STOPPING, handle_on_a_stack_of_their_own

Handler = Callable[[int, FrameType | None], object] | int | None
"""Result of signal.getsignal: a function, SIG_DFL or SIG_IGN, or None for a handler of C."""
SIGNALS = (*STOPPING, signal.SIGUSR2)
SOON = 0.05
"""Seconds after which a signal comes again whose exception was ignored: the object is deleted then."""


class StopRequest:
    """SIGINT, SIGTERM, SIGHUP and SIGUSR2 as a request while `holding`; at any other time, and when one comes a second
    time, they end the run at once. received: the number of the signal that came first, or None; SIGUSR2 is a warning
    only, and what follows it takes its place.

    Under nohup, SIGHUP stays ignored. A cluster's launcher has handlers of its own. Its handler of SIGTERM stays. Its
    handler of SIGUSR2, the warning before the job's time is over, is called when the checkpoint is written (submitit's
    puts the job in the queue again).

    Python ignores what is raised where an object is deleted, the end of the run by a signal too: it is sent again then.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.holding = False
        self._before: dict[int, Handler] = {}
        self._ours: list[int] = []
        self._unraisable = sys.unraisablehook

    def listen(self) -> None:
        """Install the handlers; does nothing outside the main thread, which alone may do so."""
        if threading.current_thread() is not threading.main_thread():
            return
        handle_on_a_stack_of_their_own()
        if not self._before:
            self._before = {number: signal.getsignal(number) for number in SIGNALS}
            self._ours = [number for number, handler in self._before.items() if _is_for_us(number, handler)]
            self._unraisable, sys.unraisablehook = sys.unraisablehook, self._ignored
        for number, handler in self._before.items():  # Lightning's handlers are for its own way of stopping
            signal.signal(number, self._receive if number in self._ours else handler)

    def close(self) -> None:
        """Restore the handlers from before, and pass a received SIGUSR2 on to its own."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before:
            sys.unraisablehook = self._unraisable
        if self.received == signal.SIGUSR2:
            handler = self._before[self.received]
            assert callable(handler)  # else the signal was not ours
            handler(self.received, None)
        self._before = {}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        again = self.received is not None
        if self.received is None or self.received == signal.SIGUSR2:
            self.received = number
        if again or not self.holding:
            raise Stopped(self.received)

    def _ignored(self, ignored: "sys.UnraisableHookArgs") -> None:
        """Python's hook for an exception that cannot be caught."""
        if not isinstance(ignored.exc_value, Stopped):
            self._unraisable(ignored)
            return
        self.received = None
        again = threading.Timer(SOON, os.kill, (os.getpid(), ignored.exc_value.signal_number))
        again.daemon = True
        again.start()


def _is_for_us(number: int, handler: Handler) -> bool:
    if number == signal.SIGHUP:
        return handler is signal.SIG_DFL
    if number == signal.SIGTERM:  # or what an earlier fit of Lightning's has left behind
        return handler is signal.SIG_DFL or type(handler).__module__.startswith("pytorch_lightning")
    return number == signal.SIGINT or callable(handler)
