"""A run that has its result is recognised by its folder and its data, whatever else stands there."""

import json
import shutil
from pathlib import Path

import pytest
from omegaconf import DictConfig

from asr_ablations.experiment.finished import finished
from asr_ablations.experiment.run import run, set_up
from asr_ablations.runs.status import DIVERGED
from tests.helpers.support import compose, tiny_overrides


def config(corpus: Path, outputs: Path, *more: str) -> DictConfig:
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", "max_epochs=1", f"outputs={outputs}"]
    return compose(*tiny_overrides(corpus), *small, *more)


@pytest.fixture(scope="module")
def trained(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of outputs with one run of the corpus of tones. Read only."""
    outputs = tmp_path_factory.mktemp("outputs")
    run(config(tiny_corpus, outputs))
    return outputs


@pytest.fixture
def outputs(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "outputs"))


@pytest.fixture
def corpus(tiny_corpus: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_corpus, tmp_path / "corpus"))


def status_file(outputs: Path) -> Path:
    (file,) = outputs.rglob("status.json")
    return file


def test_it_is_the_run_that_a_training_would_set_up(trained: Path, tiny_corpus: Path) -> None:
    cfg = config(tiny_corpus, trained)
    runs = finished([cfg])
    assert runs is not None
    expected = set_up(cfg).record
    assert [(run.folder, run.id, run.fingerprint) for run in runs] == [
        (expected.folder, expected.id, expected.fingerprint)
    ]
    assert expected.folder == status_file(trained).parent


def test_data_may_have_moved(outputs: Path, corpus: Path) -> None:
    assert finished([config(corpus, outputs)]) is not None


@pytest.mark.parametrize("override", ["seed=3", "width=16", "force=true"])
def test_another_request_is_to_be_trained(override: str, outputs: Path, tiny_corpus: Path) -> None:
    same, other = config(tiny_corpus, outputs), config(tiny_corpus, outputs, override)
    assert finished([same]) is not None
    assert finished([other]) is None
    assert finished([same, other]) is None, "one is left to do"


def test_changed_data_are_trained_on(outputs: Path, corpus: Path) -> None:
    texts = next((corpus / "train").rglob("*.trans.txt"))
    texts.write_text(texts.read_text().replace("A CAB", "A BED", 1))
    assert finished([config(corpus, outputs)]) is None


def test_missing_data_are_left_to_who_reports_them(outputs: Path, corpus: Path) -> None:
    shutil.rmtree(corpus / "dev")
    assert finished([config(corpus, outputs)]) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"status": "failed", "reason": "out of memory"}, False),
        ({"status": "pruned", "reason": "worse than others"}, False),
        ({"status": "failed", "reason": "the loss is nan", DIVERGED: 3}, True),
    ],
    ids=["failed", "pruned", "diverged"],
)
def test_only_a_result_ends_a_run(status: dict[str, object], expected: bool, outputs: Path, tiny_corpus: Path) -> None:
    file = status_file(outputs)
    file.write_text(json.dumps(json.loads(file.read_text()) | status))
    assert (finished([config(tiny_corpus, outputs)]) is not None) is expected


@pytest.mark.parametrize("name", ["status.json", "environment.json"])
def test_a_damaged_record_is_no_result(name: str, outputs: Path, tiny_corpus: Path) -> None:
    status_file(outputs).with_name(name).write_text("{")
    assert finished([config(tiny_corpus, outputs)]) is None


@pytest.mark.parametrize(
    ("name", "damaged"),
    [("status.json", ""), ("summary.json", "{}"), ("environment.json", "[]"), ("utterances.csv", "set,id\n")],
)
def test_a_run_whose_files_are_damaged_is_put_aside_and_trained_anew(
    name: str, damaged: str, outputs: Path, tiny_corpus: Path
) -> None:
    folder = status_file(outputs).parent
    losses = (folder / "losses.csv").read_text()
    (folder / name).write_text(damaged)
    assert run(config(tiny_corpus, outputs)) == folder
    kept = folder.with_name(f"{folder.name}.1")
    assert (kept / name).read_text() == damaged, "nothing is lost"
    assert (kept / "checkpoints" / "last.ckpt").exists()
    assert (folder / "losses.csv").read_text() == losses
    assert finished([config(tiny_corpus, outputs)]) is not None
