"""What ls, status and diff say of runs that lie there, and doctor of this machine."""

import json
from pathlib import Path

import pytest

from asr_ablations.commands import doctor
from asr_ablations.commands.overview import list_sweep_files, list_sweeps, show_differences, show_status
from tests.helpers.run_folders import write_run


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Two runs that are done, one that failed, and one that did not start."""
    for rnn, rate in (("lstm", 0.2), ("gru", 0.3), ("rnn", 0.4)):
        write_run(tmp_path, f"rnn={rnn}", "seed=1", rate=rate)
    failed = next((tmp_path / "sweep").glob("*rnn-rnn*"))
    (failed / "status.json").write_text(json.dumps({"status": "failed", "reason": "tired"}))
    (tmp_path / "sweep" / "arms").mkdir(exist_ok=True)
    (tmp_path / "sweep" / "arms" / "waiting.yaml").write_text("overrides: [rnn=min_gru, seed=1]\n")
    return tmp_path


def test_sweeps_are_listed_with_the_states_of_their_runs(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (outputs / "no-sweep").mkdir()
    assert list_sweeps([str(outputs)]) == 0
    printed = capsys.readouterr().out
    assert "no-sweep" not in printed
    (row,) = [line for line in printed.splitlines() if line.startswith("│ sweep")]
    assert [cell.strip() for cell in row.split("│")][1:4] == ["sweep", "4", "2 done, 1 failed, 1 not started"]


def test_the_runs_of_a_sweep_are_shown_with_their_reasons(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_status([str(outputs / "sweep")]) == 0
    printed = capsys.readouterr().out
    rows = {
        cells[1]: cells[2] for line in printed.splitlines() if len(cells := [c.strip() for c in line.split("│")]) > 5
    }
    assert rows["data=an4 data.root=/somewhere rnn=rnn"] == "failed tired"
    assert rows["data=an4 data.root=/somewhere rnn=lstm"] == "done"
    assert rows["rnn=min_gru"] == "not started"


def test_sweep_files_are_listed_with_their_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_sweep_files([]) == 0
    printed = capsys.readouterr().out
    assert "│ encoder " in printed
    assert "Do pieces of words beat letters?" in printed


def test_two_runs_differ_in_what_their_configs_say(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (next((outputs / "sweep").glob(f"*rnn-{rnn}*")) for rnn in ("lstm", "gru"))
    assert show_differences([str(first), str(second)]) == 0
    printed = capsys.readouterr().out
    assert "rnn" in printed
    assert "seed" not in printed.replace(first.name, "").replace(second.name, "").replace("seed-1", "")
    assert "WER % on" in printed
    other = write_run(outputs, "rnn=lstm", "seed=2")
    assert show_differences([str(first), str(other)]) == 0
    printed = capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if line.startswith("│ seed")]
    assert [cell.strip() for cell in row.split("│")][1:4] == ["seed", "1", "2"]
    assert "1 key differs" in printed
    assert show_differences([str(first), str(first)]) == 0
    assert "their configs are the same" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        (list_sweeps, ["nowhere"], "nowhere: there is no such folder"),
        (show_status, ["nowhere"], "nowhere: holds no runs"),
        (show_differences, ["nowhere", "nowhere"], "nowhere: not a run folder"),
    ],
)
def test_a_mistake_is_one_line(command, words, message, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_machine_that_can_train_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line[:4] in ("ok  ", "--  ") for line in lines)
    assert any(line.startswith("ok  torch 2.") for line in lines)
    assert any("GB free for outputs" in line for line in lines)
    assert all(": " in line for line in lines if line.startswith("--")), "each lack with its fix"
