"""The message for how an arm ended."""

import json
import signal
from pathlib import Path

import pytest

from asr_ablations.runs.lease import LEASE_HELD_EXIT_CODE
from asr_ablations.runs.status import DIVERGED, DONE, FAILED
from asr_ablations.sweep.arm import ELSEWHERE, STOPPED, FrozenArm, State

RECORDED = "RuntimeError: no space left on device"
INTERRUPTED = "interrupted: SIGTERM"


def finished(
    folder: Path, exit_code: int, *, kill_reason: str | None = None, memory_kills: int = 0, recorded: str = ""
) -> State:
    """The state of an arm whose process ended so. recorded: the reason in the failed run's status, if it wrote one."""
    status = {"status": FAILED, "reason": recorded} if recorded else {"status": "running"}
    (folder / "status.json").write_text(json.dumps({**status, "pid": 1}))
    state = State(FrozenArm("a", "1", folder / "a.yaml", folder, None, 1, ()))
    state.finish(exit_code, kill_reason, memory_kills)
    return state


@pytest.mark.parametrize(
    ("exit_code", "recorded", "status", "reason"),
    [
        (0, "", DONE, ""),
        (LEASE_HELD_EXIT_CODE, "", ELSEWHERE, "another launcher is running it"),
        (128 + signal.SIGINT, "", STOPPED, "stopped; it can be continued"),
        (1, INTERRUPTED, STOPPED, "stopped; it can be continued"),  # torchrun's exit code is its own
        (1, RECORDED, FAILED, RECORDED),
    ],
)
def test_an_arm_that_reports_its_end(tmp_path: Path, exit_code: int, recorded: str, status: str, reason: str) -> None:
    state = finished(tmp_path, exit_code, recorded=recorded)
    assert (state.status, state.reason) == (status, reason)


@pytest.mark.parametrize(
    ("exit_code", "kill_reason", "memory_kills", "reason"),
    [
        (-signal.SIGKILL, "timeout: longer than it may take", 0, "timeout: longer than it may take"),
        (-signal.SIGKILL, None, 1, "out of memory: killed by the system"),
        (-signal.SIGKILL, None, 0, "killed by SIGKILL"),
        (128 + signal.SIGSEGV, None, 1, "killed by SIGSEGV"),
        (3, None, 0, "exit code 3"),
    ],
)
def test_an_arm_that_dies_without_a_message_is_recorded_as_failed(
    tmp_path: Path, exit_code: int, kill_reason: str | None, memory_kills: int, reason: str
) -> None:
    state = finished(tmp_path, exit_code, kill_reason=kill_reason, memory_kills=memory_kills)
    assert (state.status, state.reason) == (FAILED, reason)
    recorded = json.loads((tmp_path / "status.json").read_text())
    assert recorded == {"status": FAILED, "reason": reason, "pid": 1}


def test_an_arm_that_its_machine_refuses_is_failed_with_what_it_said(tmp_path: Path) -> None:
    """As on a cluster, whose machines the command does not know. The log goes on where an earlier attempt ended."""
    message = "gpus=1: this machine has 0; expected auto, or 0 to 0"
    (tmp_path / "output.log").write_text(f"error: an earlier one\nstarts a\nerror: {message}\n")
    assert finished(tmp_path, 2).reason == message


@pytest.mark.parametrize("exit_code", [1, 0])
def test_an_arm_that_diverged_has_a_result_whatever_its_exit_code(exit_code: int, tmp_path: Path) -> None:
    """One process exits with 1; ranks under torchrun with 0, so that it prints no page of theirs."""
    reason = "diverged at step 7: the loss is nan"
    (tmp_path / "status.json").write_text(json.dumps({"status": FAILED, "reason": reason, "diverged": 7}))
    state = State(FrozenArm("a", "1", tmp_path / "a.yaml", tmp_path, None, 1, ()))
    state.finish(exit_code, None, 0)
    assert (state.status, state.reason, state.ended) == (DIVERGED, reason, True)
