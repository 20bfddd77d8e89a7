"""Frame labels that a trained model gives."""

from pathlib import Path

import numpy as np
import pytest
import torch

from asr_ablations.components.loss.aligned import Aligned, frame_labels
from asr_ablations.config.build import build
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.assembly import assemble
from tests.helpers.fits import fit
from tests.helpers.support import compose, tiny_overrides
from tests.helpers.trained_runs import write_trained


@pytest.fixture(scope="module")
def teacher(tiny_corpus, tmp_path_factory):
    return write_trained(tmp_path_factory.mktemp("runs"), tiny_corpus, "seed=3")


def data_of(corpus, *overrides):
    cfg = compose(*tiny_overrides(corpus), "width=8", "layers=1", *overrides)
    _, data = assemble(cfg, build(cfg.data))
    data.setup()
    return data


def sure(path, outputs=4):
    """Log-probabilities of a model that is sure of a symbol a frame."""
    return torch.nn.functional.one_hot(torch.tensor(path), outputs).double().mul(9).log_softmax(-1).numpy()


@pytest.mark.parametrize(
    ("path", "labels", "expected"),
    [
        ([0, 1, 0, 0, 2, 0], [1, 2], [1, 1, 1, 1, 2, 2]),  # what is blank belongs to the letter before, or the first
        ([1, 0, 0, 1, 0], [1, 1], [1, 1, 0, 1, 1]),  # one blank parts equal letters
        ([1, 1, 0, 1], [1, 1], [1, 1, 0, 1]),
        ([0, 0], [], [0, 0]),
    ],
)
def test_a_letter_lasts_until_the_next_begins(path, labels, expected):
    assert frame_labels(sure(path), labels).tolist() == expected


def test_a_text_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="too few"):
        frame_labels(sure([1, 1]), [1, 1])


def test_labels_of_a_batch_are_the_models_paths_stretched(teacher, tiny_corpus):
    data = data_of(tiny_corpus)
    loss = Aligned(run=str(teacher), reduction="frame")
    loss.prepare(data.sets, torch.device("cpu"))
    batch = next(iter(data.train_dataloader()))
    paths = [loss.paths[f"{id_} {text}"] for id_, text in zip(batch.ids, batch.texts, strict=True)]
    lengths = torch.tensor([len(path) for path in paths])
    labels = loss.labels(batch, lengths, int(lengths.max()))
    twice = loss.labels(batch, 2 * lengths, 2 * int(lengths.max()))
    for row, double, path in zip(labels, twice, paths, strict=True):
        assert torch.equal(row[: len(path)], path)
        assert torch.equal(double[: 2 * len(path)], path.repeat_interleave(2))
    # read in order without repeats and blanks, they are the transcript
    for path, text in zip(paths, batch.texts, strict=True):
        merged = torch.unique_consecutive(path)
        assert merged[merged != 0].tolist() == data.alphabet.encode(text)


def test_alignments_are_made_once_and_kept_with_the_model(teacher, tiny_corpus, monkeypatch):
    data = data_of(tiny_corpus)
    first, second = Aligned(run=str(teacher), reduction="frame"), Aligned(run=str(teacher), reduction="frame")
    first.prepare(data.sets, torch.device("cpu"))
    (file,) = (teacher / "alignments").glob("*.npz")
    monkeypatch.setattr("asr_ablations.components.loss.aligned.frame_labels", lambda *_: pytest.fail("aligned again"))
    second.prepare(data.sets, torch.device("cpu"))
    assert first.paths.keys() == second.paths.keys()
    assert all(torch.equal(first.paths[key], second.paths[key]) for key in first.paths)
    with np.load(file, allow_pickle=False) as kept:
        assert len(kept["keys"]) == len(first.paths)


def test_aligning_leaves_no_trace_in_the_run(teacher, tiny_corpus):
    """Random state and TF32 are those of the run, whether the alignments were there already or not."""
    data = data_of(tiny_corpus)
    for file in (teacher / "alignments").glob("*.npz"):
        file.unlink()
    torch.manual_seed(5)
    before, allowed = torch.get_rng_state(), torch.backends.cudnn.allow_tf32
    Aligned(run=str(teacher), reduction="frame").prepare(data.sets, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.backends.cudnn.allow_tf32 == allowed


def test_a_fit_learns_the_labels_and_logs_the_frame_error_rate(teacher, tiny_corpus, tmp_path: Path):
    fit(tiny_corpus, tmp_path, "loss=aligned", f"loss.run={teacher}", "max_epochs=3")
    header, *rows = [line.split(",") for line in (tmp_path / "metrics.csv").read_text().splitlines()]
    losses = [float(row[header.index("train/loss_epoch")]) for row in rows if row[header.index("train/loss_epoch")]]
    rates = [float(row[header.index("train/fer")]) for row in rows if row[header.index("train/fer")]]
    assert losses[-1] < losses[0]
    assert all(0 < rate <= 1 for rate in rates)


def test_what_cannot_be_is_one_line(teacher, tiny_corpus, tmp_path):
    with pytest.raises(UsageError, match=r"loss\.run=null: expected a finished run's folder"):
        Aligned(run=None, reduction="frame")
    with pytest.raises(UsageError, match=r"no run's folder"):
        Aligned(run=str(tmp_path), reduction="frame")
    polish = data_of(tiny_corpus, "alphabet=en", "alphabet.characters='abcdefghijklmnopqrstuvwxyz ąę'")
    with pytest.raises(UsageError, match=r"its alphabet is"):
        Aligned(run=str(teacher), reduction="frame").prepare(polish.sets, torch.device("cpu"))
    held = data_of(tiny_corpus, "cache=features", f"cache.root={tmp_path}")
    for file in (teacher / "alignments").glob("*.npz"):
        file.unlink()
    with pytest.raises(UsageError, match=r"cache=features: expected pcm or none with loss=aligned"):
        Aligned(run=str(teacher), reduction="frame").prepare(held.sets, torch.device("cpu"))
