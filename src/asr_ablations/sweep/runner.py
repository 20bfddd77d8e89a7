"""Runs the arms of a sweep side by side, whatever becomes of each."""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from asr_ablations.runs.lease import owner
from asr_ablations.runs.status import status_of
from asr_ablations.runs.watchdog import GRACE
from asr_ablations.sweep.arm import Arm
from asr_ablations.sweep.processes import ArmProcess
from asr_ablations.sweep.slots import Slots, share_of_cores
from asr_ablations.sweep.states import DONE, ELSEWHERE, RUNNING, STOPPED, WAITING, State, memory_kills

POLL = 0.1
"""Seconds between two looks at the processes."""
ELSEWHERE_AGAIN = 5.0
"""Seconds until an arm that another launcher is at is tried again."""


class Runner:
    """Hands out slots to arms, in their order: one that waits for several GPUs lets no later one pass, or it would
    wait for ever. timeout: minutes an arm may take, None for no limit.
    """

    def __init__(
        self, script: Path, arms: Sequence[Arm], slots: Slots, *, timeout: float | None, fail_fast: bool
    ) -> None:
        self.script, self.slots, self.timeout, self.fail_fast = script, slots, timeout, fail_fast
        self.states = [State(arm) for arm in arms]
        self.threads = share_of_cores(min(slots.jobs, max(1, len(arms))))
        self.asked_to_stop: int | None = None
        self._running: dict[int, tuple[State, ArmProcess, int]] = {}
        self._killed_for: dict[int, str] = {}
        self._stopping_since: float | None = None

    def run(self, show: Callable[[Sequence[State]], None]) -> list[State]:
        """All arms to their end; `show` is called with their states whenever something may have changed."""
        before = self._listen()
        try:
            for state in self.states:
                _skip_if_done(state)
            while not all(state.ended for state in self.states):
                self._stop_where_asked()
                self._start_what_fits()
                time.sleep(POLL)
                self._end_what_hangs()
                self._collect()
                show(self.states)
        finally:
            self._kill_all()
            for number, handler in before.items():
                signal.signal(number, handler)
        show(self.states)
        return self.states

    def _start_what_fits(self) -> None:
        if self._stopping_since is not None:
            return
        for index, state in enumerate(self.states):
            if state.status not in (WAITING, ELSEWHERE) or time.monotonic() < state.not_before:
                continue
            if state.status == ELSEWHERE and self._still_elsewhere(state):
                continue
            gpus = self.slots.fits(state.arm.gpus, state.arm.ranks)
            if gpus is None:
                return
            self.slots.take(index, gpus)
            settings = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
            state.status, state.reason = RUNNING, ""
            process = ArmProcess(self.script, state.arm, settings, self.threads)
            self._running[index] = state, process, memory_kills()

    def _still_elsewhere(self, state: State) -> bool:
        """Whether another launcher still is at it; if it has finished it, there is nothing left to do."""
        _skip_if_done(state)
        state.not_before = time.monotonic() + ELSEWHERE_AGAIN
        return state.ended or owner(state.arm.folder) is not None

    def _end_what_hangs(self) -> None:
        for index, (_, process, _) in self._running.items():
            if self.timeout is not None and process.seconds > 60 * self.timeout and index not in self._killed_for:
                self._killed_for[index] = f"timeout: longer than hydra.launcher.timeout={self.timeout:g} minutes"
                process.kill()
        if self._stopping_since is not None and time.monotonic() - self._stopping_since > GRACE:
            self._kill_all()

    def _collect(self) -> None:
        for index, (state, process, kills) in list(self._running.items()):
            exit_code = process.exit_code()
            if exit_code is None:
                continue
            process.kill()  # what it may have left behind in its session
            del self._running[index]
            self.slots.free(index)
            state.finish(exit_code, self._killed_for.get(index), memory_kills() - kills)
            state.not_before = time.monotonic() + ELSEWHERE_AGAIN
            if state.status == "failed" and self.fail_fast:
                self._stop_all("hydra.launcher.fail_fast: an arm failed")

    def _stop_where_asked(self) -> None:
        if self.asked_to_stop is not None and self._stopping_since is None:
            self._stop_all("interrupted")

    def _stop_all(self, why: str) -> None:
        """Ask every arm to write its checkpoint and end; none is started any more."""
        self._stopping_since = time.monotonic()
        for _, process, _ in self._running.values():
            process.stop()
        for state in self.states:
            if state.status in (WAITING, ELSEWHERE):
                state.status, state.reason = STOPPED, why

    def _kill_all(self) -> None:
        for _, process, _ in self._running.values():
            process.kill()

    def _listen(self) -> dict[int, Any]:
        """Ctrl-C and SIGTERM stop the arms; the second time they end this process at once, and the arms with it."""
        if threading.current_thread() is not threading.main_thread():
            return {}

        def receive(number: int, frame: FrameType | None) -> None:
            if self.asked_to_stop is not None:
                raise KeyboardInterrupt
            self.asked_to_stop = number

        return {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}


def _skip_if_done(state: State) -> None:
    told = status_of(state.arm.folder)
    if told is not None and told["status"] == DONE:
        state.skipped = state.status == WAITING
        state.status, state.reason = DONE, "done already" if state.skipped else "done by another launcher"
