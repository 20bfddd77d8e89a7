"""What ls, status and diff say of runs that lie there, and doctor of this machine; what rm and mv leave of them."""

import io
import json
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from asr_ablations.commands import doctor
from asr_ablations.commands.housekeeping import remove, rename
from asr_ablations.commands.overview import list_sweep_files, list_sweeps, show_differences, show_status
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import frozen_config
from asr_ablations.runs.reader import read_config
from asr_ablations.runs.records import find_run_folders
from tests.helpers.run_folders import write_run

Capture = pytest.CaptureFixture[str]


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


def test_sweeps_are_listed_with_the_states_of_their_runs(outputs: Path, capsys: Capture) -> None:
    (outputs / "no-sweep").mkdir()
    assert list_sweeps([str(outputs)]) == 0
    printed = capsys.readouterr().out
    assert "no-sweep" not in printed
    (row,) = [line for line in printed.splitlines() if line.startswith("│ sweep")]
    assert [cell.strip() for cell in row.split("│")][1:4] == ["sweep", "4", "2 done, 1 failed, 1 not started"]


def test_the_runs_of_a_sweep_are_shown_with_their_reasons(outputs: Path, capsys: Capture) -> None:
    assert show_status([str(outputs / "sweep")]) == 0
    printed = capsys.readouterr().out
    rows = {
        cells[1]: cells[2] for line in printed.splitlines() if len(cells := [c.strip() for c in line.split("│")]) > 5
    }
    assert rows["data=an4 data.root=/somewhere rnn=rnn"] == "failed tired"
    assert rows["data=an4 data.root=/somewhere rnn=lstm"] == "done"
    assert rows["rnn=min_gru"] == "not started"


def test_sweep_files_are_listed_with_their_questions(capsys: Capture) -> None:
    assert list_sweep_files([]) == 0
    printed = capsys.readouterr().out
    assert "│ encoder " in printed
    assert "Do pieces of words beat letters?" in printed


def test_two_runs_differ_in_what_their_configs_say(outputs: Path, capsys: Capture) -> None:
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
def test_a_mistake_is_one_line(command, words, message, capsys: Capture) -> None:
    assert command(words) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_a_machine_that_can_train_is_told_so(capsys: Capture) -> None:
    assert doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line[:4] in ("ok  ", "--  ") for line in lines)
    assert any(line.startswith("ok  torch 2.") for line in lines)
    assert any("GB free for outputs" in line for line in lines)
    assert all(": " in line for line in lines if line.startswith("--")), "each lack with its fix"


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two runs of a sweep with their frozen configs, and a link to the first in another sweep."""
    runs = [write_run(tmp_path, f"rnn={rnn}") for rnn in ("lstm", "gru")]
    (tmp_path / "sweep" / "arms").mkdir(exist_ok=True)
    for run in runs:
        frozen_config(run).write_text((run / "config.yaml").read_text())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / runs[0].name).symlink_to(f"../sweep/{runs[0].name}", target_is_directory=True)
    return runs


def test_it_is_asked_what_goes_and_a_no_keeps_everything(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    terminal = io.StringIO("n\ny\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)
    assert remove([str(runs[0])]) == 1
    printed = capsys.readouterr().out
    assert f"{runs[0]}: 1 run, " in printed
    assert f"{runs[0].parents[1] / 'other' / runs[0].name}: a link to one of these runs" in printed
    assert all(run.exists() for run in runs)
    assert remove([str(runs[0])]) == 0
    assert find_run_folders(runs[1].parent) == [runs[1]]
    assert list((runs[0].parents[1] / "other").iterdir()) == []
    assert remove([str(runs[1].parent), "--yes"]) == 0
    assert not runs[1].parent.exists()


def test_a_link_goes_alone_and_so_does_a_run_kept_aside(runs: list[Path]) -> None:
    link, aside = runs[0].parents[1] / "other" / runs[0].name, runs[1].with_name(f"{runs[1].name}.1")
    shutil.copytree(runs[1], aside)
    assert remove([str(link), str(aside), "--yes"]) == 0
    assert not link.is_symlink()
    assert not aside.exists()
    assert all(run.exists() and frozen_config(run).exists() for run in runs)


def test_what_is_no_run_or_is_at_work_stays(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "data").mkdir()
    assert remove([str(tmp_path / "data"), "--yes"]) == 2
    assert "neither a run nor a sweep" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert remove([str(runs[0])]) == 2
    assert "the input is not a terminal; --yes" in capsys.readouterr().err
    monkeypatch.setattr("asr_ablations.commands.housekeeping.owner", lambda run: "process 1 is working on it")
    assert remove([str(runs[0].parent), "--yes"]) == 2
    assert "process 1 is working on it; stop it first" in capsys.readouterr().err
    assert all(run.exists() for run in runs)


def test_a_renamed_run_is_found_by_its_identity_and_counted_once(runs: list[Path], capsys: Capture) -> None:
    assert rename([str(runs[0]), "best"]) == 0
    best = runs[0].with_name("best")
    assert find_run_folders(best.parent) == sorted([best, runs[1]])
    assert (best.parents[1] / "other" / runs[0].name).resolve() == best.resolve()
    capsys.readouterr()
    assert show_status([str(best.parent)]) == 0
    assert "not started" not in capsys.readouterr().out
    assert Run(OmegaConf.create(read_config(best))).folder == best
    best.rename(best.with_name("by hand"))  # its frozen config keeps the old name
    assert len(find_run_folders(best.parent)) == 2


def test_a_renamed_sweep_keeps_links_to_its_runs(runs: list[Path], capsys: Capture) -> None:
    outputs = runs[0].parents[1]
    assert rename([str(outputs / "sweep"), "question"]) == 0
    assert "its command continues it with sweep=question" in capsys.readouterr().out
    assert (outputs / "other" / runs[0].name).resolve() == (outputs / "question" / runs[0].name).resolve()
    for name, message in (("other", "is there already"), ("a b", "such as a-b")):
        assert rename([str(outputs / "question"), name]) == 2
        assert message in capsys.readouterr().err
