"""Run folders read back as they were written, and the unfinished ones named."""

import os
import socket
from pathlib import Path

import pytest

from asr_ablations.runs.lease import Lease
from asr_ablations.runs.reader import UnreadableFileError, read_config
from asr_ablations.runs.records import load, read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.errors import UsageError
from tests.helpers.run_folders import edit, write_run


def test_the_record_is_read_as_numbers(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, "rnn=lstm", "seed=3", "optimizer.lr=1e-3"))
    assert run.seed == 3
    assert run.overrides == ["data=an4", "data.root=/somewhere", "rnn=lstm", "seed=3", "optimizer.lr=1e-3"]
    assert run.config["optimizer"]["lr"] == 0.001
    assert run.metrics[0]["validation/dev/wer"] == 0.9
    assert run.metrics[0]["train/loss_epoch"] is None
    assert {type(run.utterances[0][key]) for key in ("words", "substitutions", "characters")} == {int}
    errors = sum(row["substitutions"] + row["deletions"] + row["insertions"] for row in run.utterances)
    assert errors == sum(
        run.summary.value(name, kind) or 0
        for name in run.summary.sets
        for kind in ("substitutions", "deletions", "insertions")
    )


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "0.001", "1E-3"])
def test_numbers_are_numbers_however_they_are_written(text: str, tmp_path: Path) -> None:
    """PyYAML alone reads 1e-3 as text, and two runs with the same value would differ."""
    folder = write_run(tmp_path)
    edit(folder / "config.yaml", r"\n  lr: .*\n", f"\n  lr: {text}\n")
    assert read_run(folder).config["optimizer"]["lr"] == 0.001


def test_earlier_runs_kept_aside_are_no_runs(tmp_path: Path) -> None:
    first = write_run(tmp_path)
    assert write_run(tmp_path) == first
    assert (tmp_path / "sweep" / f"{first.name}.1").is_dir()
    assert [run.folder for run in load([tmp_path / "sweep"]).runs] == [first]


def test_what_did_not_finish_is_named_with_its_reason(tmp_path: Path) -> None:
    done = write_run(tmp_path, "seed=0")
    failed, died = write_run(tmp_path, "seed=1", status="failed"), write_run(tmp_path, "seed=2", status="running")
    working = write_run(tmp_path, "seed=3", status="running")
    claim = Lease(working, lost=lambda: None)
    claim.take()
    (done.parent / "arms").mkdir()
    (done.parent / "arms" / f"{done.name}.yaml").touch()
    (done.parent / "arms" / "never-00000000.yaml").touch()
    found = load([tmp_path / "sweep"])
    claim.release()
    assert [run.folder for run in found.runs] == [done]
    assert {run.folder.name: (run.state, run.reason) for run in found.unfinished} == {
        failed.name: ("failed", "failed: out of memory"),
        died.name: ("interrupted", "ended without a message"),
        working.name: (
            "running",
            f"still running: process {os.getpid()} on {socket.gethostname()} is working on it",
        ),
        "never-00000000": ("missing", "did not start"),
    }


def test_a_run_given_twice_counts_once_and_a_single_run_is_a_folder_too(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert len(load([run, run.parent, run]).runs) == 1


def test_a_run_whose_status_was_lost_is_named(tmp_path: Path) -> None:
    whole, gone, loop = (write_run(tmp_path, f"seed={seed}") for seed in range(3))
    (gone / "status.json").unlink()
    (loop / "status.json").unlink()
    (loop / "status.json").symlink_to("status.json")
    records = load([tmp_path / "sweep"])
    assert [run.folder for run in records.runs] == [whole]
    assert {run.folder: run.state for run in records.unfinished} == {gone: "missing", loop: "damaged"}


def test_folders_that_hold_nothing_are_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        load([tmp_path / "absent"])
    with pytest.raises(UsageError, match="holds no runs"):
        load([tmp_path])


def test_a_record_that_is_not_whole_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path, change=lambda path: (path / "summary.json").unlink())
    assert why_unfinished(folder) is None
    with pytest.raises(UsageError, match=r"summary\.json"):
        read_run(folder)


def test_a_config_that_nests_deeper_than_any_is_refused(tmp_path: Path) -> None:
    config = write_run(tmp_path) / "config.yaml"
    config.write_text(f"seed: 0\na: {'[' * 99}{']' * 99}\nb: [{'[], ' * 200}]\n")
    assert len(read_config(config.parent)["b"]) == 200
    config.write_text(f"seed: 0\na: {'[' * 100}{']' * 100}\n")
    with pytest.raises(UnreadableFileError, match="more than 100 levels"):
        read_config(config.parent)


def test_a_run_from_before_the_fingerprint_is_read(tmp_path: Path) -> None:
    assert read_run(write_run(tmp_path, change=lambda path: (path / "data.json").unlink())).data.sets == {}
