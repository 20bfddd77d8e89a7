"""An experiment: its run, its summary, and what follows a finished or an interrupted one."""

import csv
import itertools
import json
import shutil
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from asr_ablations.experiment.finished import find_finished_runs
from asr_ablations.experiment.run import set_up
from asr_ablations.runs.status import DIVERGED
from tests.helpers.fits import fit, model_of
from tests.helpers.run_results import same, train
from tests.helpers.support import compose, defaults, group_options, tiny_overrides


def test_every_utterance_of_every_set_is_scored_once_and_the_summary_counts_them(trained: Path) -> None:
    """The final loss is that of the last validation: both are of the last weights."""
    folder = status_file(trained).parent
    with (folder / "utterances.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sorted((row["set"], row["id"]) for row in rows) == [
        *(("dev", f"{speaker}-1-{number:04d}") for speaker in (20, 21) for number in range(3)),
        *(("test", f"30-1-{number:04d}") for number in range(2)),
    ]
    assert all(int(row["words"]) == len(row["reference"].split()) for row in rows)
    sets = json.loads((folder / "summary.json").read_text())["sets"]
    for name, final in sets.items():
        own = [row for row in rows if row["set"] == name]
        errors = sum(int(row[kind]) for row in own for kind in ("substitutions", "deletions", "insertions"))
        assert final["wer"] == pytest.approx(errors / sum(int(row["words"]) for row in own))
    with (folder / "metrics.csv").open() as file:
        losses = [float(row["validation/dev/loss"]) for row in csv.DictReader(file) if row["validation/dev/loss"]]
    assert sets["dev"]["loss"] == pytest.approx(losses[-1], rel=1e-5)
    assert sets["test"]["loss"] > 0


def test_a_run_on_the_cpu_never_opens_cuda(tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a GPU, which is someone else's: whatever asks CUDA for more than how many there are fails."""

    def opened(*_: object) -> None:
        raise AssertionError("CUDA was opened")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch._C._cuda_init", opened)
    monkeypatch.setattr("torch.cuda.is_current_stream_capturing", lambda: False)  # opens nothing, but has no driver
    with pytest.raises(AssertionError, match="opened"):
        torch.cuda.get_rng_state()
    made = train(config(tiny_corpus, tmp_path))
    assert "cuda" not in torch.load(made / "checkpoints" / "last.ckpt", weights_only=True)["ranks"][0]["random"]


def config(corpus: Path, outputs: Path, *more: str) -> DictConfig:
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", "max_epochs=1", f"outputs={outputs}"]
    return compose(*tiny_overrides(corpus), *small, *more)


@pytest.fixture(scope="module")
def trained(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of outputs with one run of the corpus of tones. Read only."""
    outputs = tmp_path_factory.mktemp("outputs")
    train(config(tiny_corpus, outputs))
    return outputs


@pytest.fixture
def outputs(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "outputs"))


def status_file(outputs: Path) -> Path:
    (file,) = outputs.rglob("status.json")
    return file


def test_it_is_the_run_that_a_training_would_set_up(trained: Path, tiny_corpus: Path) -> None:
    cfg = config(tiny_corpus, trained)
    runs = find_finished_runs([cfg])
    assert runs is not None
    expected = set_up(cfg).record
    assert [(run.folder, run.id, run.fingerprint) for run in runs] == [
        (expected.folder, expected.id, expected.fingerprint)
    ]
    assert expected.folder == status_file(trained).parent


def test_data_may_have_moved_but_not_changed(outputs: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    corpus = shutil.copytree(tiny_corpus, tmp_path / "corpus")
    assert find_finished_runs([config(corpus, outputs)]) is not None
    texts = next((corpus / "train").rglob("*.trans.txt"))
    texts.write_text(texts.read_text().replace("A CAB", "A BED", 1))
    assert find_finished_runs([config(corpus, outputs)]) is None
    shutil.rmtree(corpus / "dev")
    assert find_finished_runs([config(corpus, outputs)]) is None, "left to what reports missing data"


def test_another_request_is_to_be_trained(trained: Path, tiny_corpus: Path) -> None:
    same = config(tiny_corpus, trained)
    assert find_finished_runs([same]) is not None
    for override in ("seed=3", "width=16", "force=true"):
        other = config(tiny_corpus, trained, override)
        assert find_finished_runs([other]) is None
        assert find_finished_runs([same, other]) is None, "one is left to do"


def test_only_a_result_ends_a_run(outputs: Path, tiny_corpus: Path) -> None:
    file = status_file(outputs)
    for reason, ended in (({"reason": "out of memory"}, False), ({"reason": "the loss is nan", DIVERGED: 3}, True)):
        file.write_text(json.dumps({**json.loads(file.read_text()), "status": "failed", **reason}))
        assert (find_finished_runs([config(tiny_corpus, outputs)]) is not None) is ended


@pytest.mark.parametrize(("name", "damaged"), [("status.json", ""), ("utterances.csv", "set,id\n")])
def test_a_run_whose_files_are_damaged_is_put_aside_and_trained_anew(
    name: str, damaged: str, outputs: Path, tiny_corpus: Path
) -> None:
    folder = status_file(outputs).parent
    losses = (folder / "losses.csv").read_text()
    (folder / name).write_text(damaged)
    if name == "status.json":
        assert find_finished_runs([config(tiny_corpus, outputs)]) is None
    (folder / "output.log").write_text("printed by an arm\n")
    assert train(config(tiny_corpus, outputs)) == folder
    assert (folder / "output.log").read_text() == "printed by an arm\n", "into which a launched arm goes on printing"
    kept = folder.with_name(f"{folder.name}.1")
    assert (kept / name).read_text() == damaged, "nothing is lost"
    assert (kept / "checkpoints" / "last.ckpt").exists()
    assert (folder / "losses.csv").read_text() == losses
    assert find_finished_runs([config(tiny_corpus, outputs)]) is not None


STATEFUL = [
    [f"{group}={name}" for name in group_options(group) if name not in (defaults()[group], "none", "constant")]
    for group in ("averaging", "gradient", "pretrain", "schedule")
]


@pytest.mark.parametrize(
    "options",
    [
        *([option for option in options if option] for options in itertools.zip_longest(*STATEFUL)),
        ["optimizer=muon", "optimizer.rates={convolutions:0.1}", "optimizer.decay_norms_and_biases=false"],
        ["optimizer=schedule_free", "schedule=constant", "optimizer.warm_up=2", "batch.accumulate=2"],
        ["model=wavlm", "model.layer_drop=0.5", "model.masks.time_masks=1", "dropout=0.1"],
    ],
    ids=",".join,
)
def test_a_resumed_fit_is_the_unbroken_one(options: list[str], tiny_corpus: Path, tmp_path: Path) -> None:
    """Every averaging, treatment of gradients, pretraining and schedule in conf/ resumes bit for bit, and so do own
    optimizers, skipped layers and masks inside a model.
    """
    more = {
        "schedule=newbob": ["schedule.threshold=0.9"],  # one epoch misses it: the rate falls before and after
        "gradient=outliers": ["gradient.warm_up=1"],
        "pretrain=frozen": ["pretrain.parts=[convolutions,norms.1]", "pretrain.until=2"],
    }
    words = [*options, *itertools.chain.from_iterable(more.get(option, []) for option in options)]
    unbroken = fit(tiny_corpus, tmp_path / "whole", *words)
    expected = torch.load(tmp_path / "whole" / "last.ckpt", weights_only=True)
    # at the end of the first epoch of three steps, and within the second; of two with two batches each, at the most
    for steps in (2, 3) if "batch.accumulate=2" in options else (3, 5):
        folder = tmp_path / f"from-{steps}"
        resumed = fit(tiny_corpus, folder, *words, resume=tmp_path / "whole" / f"step={steps}.ckpt")
        assert same(dict(resumed.state_dict()), dict(unbroken.state_dict()))
        assert same(model_of(folder, 2), model_of(tmp_path / "whole", 2))
        last = torch.load(folder / "last.ckpt", weights_only=True)
        for key in ("state_dict", "optimizer_states", "trained_weights"):
            assert same(last.get(key), expected.get(key)), key
