"""The display of a sweep's arms while it runs."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from asr_ablations.runs.status import DONE, FAILED, RUNNING
from asr_ablations.sweep.arm import FrozenArm, State
from asr_ablations.sweep.live import LiveArms


@pytest.fixture
def states(tmp_path: Path) -> list[State]:
    arms = []
    for name in ("lstm", "gru"):
        folder = tmp_path / name
        folder.mkdir()
        overrides = (f"rnn={name}", "max_epochs=4")
        arms.append(FrozenArm(name, name, folder / "config.yaml", folder, None, 1, overrides))
    return [State(arm) for arm in arms]


def displayed(states: list[State], terminal: bool, changes: list[tuple[str, str]]) -> str:
    """The output while the first arm passes through these (status, reason)."""
    live, out = LiveArms(), io.StringIO()
    live.console = Console(file=out, force_terminal=terminal, width=100, highlight=False)
    with live:
        for states[0].status, states[0].reason in changes:
            live.show(states)
            live.show(states)
    return out.getvalue()


def test_a_log_gets_one_line_per_change(states: list[State]) -> None:
    lines = displayed(states, False, [(RUNNING, ""), (FAILED, "out of memory: x")]).replace("\n", "")
    log = str(states[0].arm.log)
    assert lines == f"arm 1 of 2: rnn=lstm: running  {log}arm 1 of 2: rnn=lstm: failed  out of memory: x"


def test_a_terminal_gets_a_table_with_epoch_loss_error_rate_and_time_left(states: list[State]) -> None:
    progress = {"epoch": 1, "epochs": 4, "batch": 5, "batches": 10, "loss": 0.5, "wer": 0.123, "seconds_left": 65.2}
    (states[0].arm.folder / "progress.json").write_text(json.dumps(progress))
    shown = displayed(states, True, [(RUNNING, "")])
    assert all(cell in shown for cell in ("rnn=lstm", "running", "1.5/4", "0.500", "12.3", "1:05", "waiting"))
    assert "max_epochs" not in shown, "overrides that all arms share say nothing"


@pytest.mark.parametrize("text", ["{", "[]", '{"epoch": 1}', '{"epoch": "one", "epochs": 4}', "\x00"])
def test_only_running_arms_show_numbers(text: str, states: list[State]) -> None:
    (states[0].arm.folder / "progress.json").write_text(text)  # half a file, or none of ours
    shown = displayed(states, True, [(RUNNING, ""), (DONE, "already done")])
    assert "already done" in shown
