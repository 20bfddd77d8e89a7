"""rm and mv: what goes, what stays, and that a renamed run is still the same run."""

import io
import shutil
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from asr_ablations.commands.housekeeping import remove, rename
from asr_ablations.commands.overview import show_status
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import frozen_config
from asr_ablations.runs.reader import read_config
from asr_ablations.runs.records import find_run_folders
from tests.helpers.run_folders import write_run


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


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    terminal = io.StringIO(f"{text}\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)


def test_it_is_asked_what_goes_and_a_no_keeps_everything(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, "n")
    assert remove([str(runs[0])]) == 1
    printed = capsys.readouterr().out
    assert f"{runs[0]}: 1 run, " in printed
    assert f"{runs[0].parents[1] / 'other' / runs[0].name}: a link to one of these runs" in printed
    assert all(run.exists() for run in runs)
    answer(monkeypatch, "y")
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
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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


def test_a_renamed_run_is_found_by_its_identity_and_counted_once(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_renamed_sweep_keeps_links_to_its_runs(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    outputs = runs[0].parents[1]
    assert rename([str(outputs / "sweep"), "question"]) == 0
    assert "its command continues it with sweep=question" in capsys.readouterr().out
    assert (outputs / "other" / runs[0].name).resolve() == (outputs / "question" / runs[0].name).resolve()
    for name, message in (("other", "is there already"), ("a b", "such as a-b")):
        assert rename([str(outputs / "question"), name]) == 2
        assert message in capsys.readouterr().err
