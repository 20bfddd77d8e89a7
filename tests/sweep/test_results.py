"""RESULTS.md is made of the records alone."""

from pathlib import Path

import pytest

from asr_ablations.errors import UsageError
from asr_ablations.sweep.results import results
from run_folders import write_run, write_sweep

ABLATION = {"question": "Is a GRU as good?", "factor": "rnn", "baseline": "lstm"}


def test_every_finished_sweep_with_question_command_commit_table_verdict_and_figure(tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    rates = {"rnn=lstm": 0.1, "rnn=gru": 0.5}
    sweep = write_sweep(outputs, rates, seeds=3, ablation=ABLATION, sweep="rnn_type")
    write_run(outputs, sweep="alone")
    write_run(outputs, sweep="failed", status="failed")
    (sweep / "comparison" / "figures").mkdir(parents=True)
    (sweep / "comparison" / "figures" / "curves.svg").touch()
    text = results(outputs, tmp_path / "sweeps" / "RESULTS.md")
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## rnn_type"]
    for part in (
        "Is a GRU as good?", "    python ", "Commit: 01234567.", "| arm | set | n |", "| gru | test | 3 |", "- gru is ",
        "[curves](../outputs/rnn_type/comparison/figures/curves.svg)", "Do not edit",
    ):  # fmt: skip
        assert part in text, part
    assert results(outputs, tmp_path / "sweeps" / "RESULTS.md") == text


def test_a_confounded_sweep_is_listed_with_its_reason(tmp_path: Path) -> None:
    write_run(tmp_path, "rnn=lstm", ablation=ABLATION)
    write_run(tmp_path, "rnn=gru", "batch.size=4", ablation=ABLATION)
    text = results(tmp_path, tmp_path / "RESULTS.md")
    assert "Not compared:\n\n    the arms differ in more than the factor rnn:\n      batch.size: " in text


def test_no_outputs_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        results(tmp_path / "absent", tmp_path / "RESULTS.md")
