"""Run the arms of a sweep in parallel. An arm that fails, hangs or dies does not affect the others."""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol

from asr_ablations.runs.lease import owner
from asr_ablations.runs.process import GRACE
from asr_ablations.runs.status import FAILED, RESULTS, RUNNING, fate_of
from asr_ablations.sweep.arm import ELSEWHERE, QUEUED, STOPPED, WAITING, FrozenArm, State
from asr_ablations.tools.signals import stopping_signals

POLL = 0.1
"""Seconds between polls of the processes."""
RETRY = 5.0
"""Seconds between checks of whether another launcher is still running an arm."""


class Process(Protocol):
    """A started arm.

    begun: whether the arm has started; false while it is waiting for a machine. seconds: running time. failure: reason
    why the arm ended, if the exit code does not explain it. place: where the arm runs or waits; "" on this machine.
    """

    @property
    def begun(self) -> bool: ...
    @property
    def seconds(self) -> float: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def place(self) -> str: ...

    def exit_code(self) -> int | None:
        """Return the exit code, or None while the process runs."""

    def stop(self) -> None:
        """Ask the process to write its checkpoint and end."""

    def kill(self) -> None:
        """End the process and all other processes in its session now."""


class Places(ABC):
    """Starts arms on a machine or a cluster. detach: whether the command ends once no arm has to wait for a place."""

    detach = False

    @abstractmethod
    def start(self, arm: FrozenArm) -> Process | None:
        """Start an arm, or return None if the arm has to wait for a place."""

    @abstractmethod
    def free(self, arm: FrozenArm) -> None:
        """Release the resources of an arm that has ended."""

    def left(self) -> str | None:
        """Return a message if the arms continue after the command ends; None if they end with it."""
        return None


class DetachedError(Exception):
    """The command ends, but its arms continue. The message explains how to attach to the arms again."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class Runner:
    """Starts the arms in order, so that all arms have the same seeds if the sweep is stopped early.

    No arm overtakes an arm that is waiting, because an arm with several GPUs might then wait forever. timeout: minutes
    after which an arm is killed; None disables the limit. fail_fast: whether all arms are stopped when one fails.
    """

    def __init__(self, arms: Sequence[FrozenArm], places: Places, *, timeout: float | None, fail_fast: bool) -> None:
        self.places, self.timeout, self.fail_fast = places, timeout, fail_fast
        self.states = [State(arm) for arm in arms]
        self.stop_signal: int | None = None
        self._running: dict[int, Process] = {}
        self._kill_reasons: dict[int, str] = {}
        self._stopping_since: float | None = None

    def run(self, show: Callable[[Sequence[State]], None]) -> list[State]:
        """Run all arms and return their states. `show` receives the states after each poll. May raise DetachedError."""
        previous_handlers = self._handle_signals()
        try:
            for state in self.states:
                _skip_if_ended(state)
            while not all(state.ended for state in self.states):
                if self.stop_signal is not None and self._stopping_since is None:
                    self._leave(128 + self.stop_signal)
                    self._stop_all("interrupted")
                self._start_what_fits()
                if self.places.detach and not any(state.status == WAITING for state in self.states):
                    self._leave(0)
                time.sleep(POLL)
                self._kill_what_hangs()
                self._collect()
                show(self.states)
        finally:
            self._kill_all()
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)
        show(self.states)
        return self.states

    def _start_what_fits(self) -> None:
        for index, state in enumerate(self.states):
            if state.status not in (WAITING, ELSEWHERE):
                continue
            if state.status == ELSEWHERE and self._still_elsewhere(state):
                continue
            if (process := self.places.start(state.arm)) is None:
                return
            state.status, state.reason = QUEUED, ""
            self._running[index] = process

    def _still_elsewhere(self, state: State) -> bool:
        """Return whether another launcher is running or has finished the arm. Test at most once every RETRY seconds."""
        if time.monotonic() < state.not_before:
            return True
        _skip_if_ended(state)
        state.not_before = time.monotonic() + RETRY
        return state.ended or owner(state.arm.folder) is not None

    def _kill_what_hangs(self) -> None:
        for index, process in self._running.items():
            if self.timeout is not None and process.seconds > 60 * self.timeout and index not in self._kill_reasons:
                self._kill_reasons[index] = f"timeout: longer than hydra.launcher.timeout={self.timeout:g} minutes"
                process.kill()
        if self._stopping_since is not None and time.monotonic() - self._stopping_since > GRACE:
            self._kill_all()

    def _collect(self) -> None:
        """Update the states of arms that have begun or ended."""
        for index, process in list(self._running.items()):
            state = self.states[index]
            state.status, state.reason = RUNNING if process.begun else QUEUED, process.place
            exit_code = process.exit_code()
            if exit_code is None:
                continue
            process.kill()  # also ends processes that the arm has started
            del self._running[index]
            self.places.free(state.arm)
            state.finish(exit_code, self._kill_reasons.get(index, process.failure))
            if state.status == ELSEWHERE:
                state.not_before = time.monotonic() + RETRY
                if self._stopping_since is not None:
                    state.status = STOPPED  # the sweep does not try the arm again
            elif state.status == FAILED and self.fail_fast:
                self._stop_all("hydra.launcher.fail_fast: an arm failed")

    def _leave(self, exit_code: int) -> None:
        """Raise DetachedError if the arms continue without this command."""
        if self._running and (message := self.places.left()) is not None:
            self._running.clear()  # otherwise run() would kill them
            raise DetachedError(message, exit_code)

    def _stop_all(self, reason: str) -> None:
        """Ask every arm to write its checkpoint and end, and start no more arms."""
        self._stopping_since = time.monotonic()
        for process in self._running.values():
            process.stop()
        for state in self.states:
            if state.status in (WAITING, ELSEWHERE):
                state.status, state.reason = STOPPED, reason

    def _kill_all(self) -> None:
        for process in self._running.values():
            process.kill()

    def _handle_signals(self) -> dict[int, Any]:
        """Let the first signal stop the arms, and a second one end this process. Return the previous handlers."""

        def receive(number: int, frame: FrameType | None) -> None:
            if self.stop_signal is not None:
                raise KeyboardInterrupt
            self.stop_signal = number

        return {number: signal.signal(number, receive) for number in stopping_signals()}


def _skip_if_ended(state: State) -> None:
    """Skip an arm that has a result. Divergence is a result, because the same config would diverge again."""
    earlier = fate_of(state.arm.folder)
    if earlier.state in RESULTS:
        state.skipped = state.status == WAITING
        done = "already done" if state.skipped else "done by another launcher"
        state.status, state.reason = earlier.state, earlier.reason or done
