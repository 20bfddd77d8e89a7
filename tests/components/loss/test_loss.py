"""Losses: CTC on devices, reductions, framewise losses, alignments."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn.functional import ctc_loss

from asr_ablations.components.loss import ctc as module
from asr_ablations.components.loss.aligned import Aligned, frame_labels
from asr_ablations.components.loss.ctc import device_ctc, largest_difference
from asr_ablations.components.loss.framewise import Framewise
from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.batch import Batch
from asr_ablations.training.assembly import assemble
from asr_verdicts.errors import UsageError
from tests.helpers.support import component, compose, tiny_overrides
from tests.helpers.trained_runs import write_trained
from tests.helpers.triton_interpreter import interpret, without_its_warnings


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels run by numpy."""
    pytest.importorskip("triton")
    from asr_ablations.components.loss import ctc_kernels

    interpret(monkeypatch, ctc_kernels)
    monkeypatch.setattr(module, "operations", type("Kernels", (), dict(ctc_kernels.KERNELS)))


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_kernels_give_the_numbers_of_torch() -> None:
    assert largest_difference("cpu") < 1e-5


@pytest.mark.usefixtures("interpreted")
@without_its_warnings
def test_the_smallest_utterances_and_what_is_no_number() -> None:
    for frames, labels in ((0, []), (0, [1]), (1, [1]), (1, []), (2, [1, 1]), (3, [1, 1])):
        log_probs = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(2)).log_softmax(2)
        sizes = torch.tensor([frames]), torch.tensor([len(labels)])
        targets = torch.tensor(labels, dtype=torch.long)
        expected = ctc_loss(log_probs.transpose(0, 1), targets, *sizes, reduction="none")
        torch.testing.assert_close(device_ctc(log_probs, targets, *sizes), expected)
    log_probs = torch.full((1, 3, 3), float("nan"))
    assert device_ctc(log_probs, torch.tensor([1]), torch.tensor([3]), torch.tensor([1])).isnan().all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_numbers_of_torch_and_the_same_bits_twice() -> None:
    assert module.usable("cuda")
    log_probs = torch.randn(16, 640, 29, device="cuda").log_softmax(2).requires_grad_()
    sizes = torch.full((16,), 640), torch.full((16,), 180)
    targets = torch.randint(1, 29, (16 * 180,), device="cuda")
    gradients = [torch.autograd.grad(device_ctc(log_probs, targets, *sizes).sum(), log_probs)[0] for _ in range(2)]
    assert torch.equal(*gradients)


TEXTS, FRAMES = ["ab", "", "aab", "b"], [7, 4, 11, 1]
UNITS = {"ctc": ("label", [2, 1, 3, 1]), "framewise": ("frame", FRAMES)}
"""What an utterance's nats are divided by; an empty transcript counts as one label."""


@pytest.mark.parametrize("name", UNITS)
def test_each_reduction_is_what_it_is_called(name: str) -> None:
    log_probs = torch.randn(4, 11, 5, generator=torch.Generator().manual_seed(0)).log_softmax(dim=-1)
    whole, (unit, units) = component("loss", name, reduction="sum"), UNITS[name]
    nats = [  # each utterance in a batch of its own and without padding
        whole(row[None, :frames], torch.tensor([frames]), framewise_batch([text])).item()
        for row, frames, text in zip(log_probs, FRAMES, TEXTS, strict=True)
    ]
    expected = {
        unit: sum(value / count for value, count in zip(nats, units, strict=True)) / 4,
        "utterance": sum(nats) / 4,
        "sum": sum(nats),
    }
    for reduction, value in expected.items():
        loss = component("loss", name, reduction=reduction)
        assert loss(log_probs, torch.tensor(FRAMES), framewise_batch(TEXTS)).item() == pytest.approx(value, rel=1e-5)
        assert loss.weight(framewise_batch(TEXTS)) == (1 if reduction == "sum" else 4)


ALPHABET = Letters("abc ")
FRAMEWISE_TEXTS = ["ab", "", "aab", "c", "abba cc", "aaaa"]
LENGTHS = torch.tensor([7, 4, 11, 1, 20, 7])


def framewise_batch(texts: list[str]) -> Batch:
    labels = [ALPHABET.encode(text) for text in texts]
    return Batch(
        audio=torch.zeros(0, dtype=torch.int16), lengths=torch.zeros(len(texts), dtype=torch.long),
        targets=torch.tensor(list(itertools.chain(*labels)), dtype=torch.long),
        target_lengths=torch.tensor([len(x) for x in labels]), ids=texts, texts=texts,
    )  # fmt: skip


def test_framewise_labels_and_their_loss_are_those_of_a_loop() -> None:
    def by_loop(text: str, frames: int) -> list[int]:
        """A blank between equal neighbours, then every frame by its share of the way."""
        path: list[int] = []
        for label in ALPHABET.encode(text):
            path += [0, label] if path and path[-1] == label else [label]
        path = path or [0]
        return [path[math.floor(t * len(path) / frames)] for t in range(frames)]

    result = Framewise(reduction="frame").labels(framewise_batch(FRAMEWISE_TEXTS), LENGTHS, 20)
    assert result.shape == (6, 20)
    for row, text, length in zip(result, FRAMEWISE_TEXTS, LENGTHS.tolist(), strict=True):
        assert row[:length].tolist() == by_loop(text, length)
    log_probs = torch.randn(6, 20, ALPHABET.outputs, generator=torch.Generator().manual_seed(1)).log_softmax(dim=-1)
    expected, wrong = [], 0
    for row, text, length in zip(log_probs, FRAMEWISE_TEXTS, LENGTHS.tolist(), strict=True):
        labels = by_loop(text, length)
        expected.append(-sum(float(row[t, label]) for t, label in enumerate(labels)) / length)
        wrong += sum(int(row[t].argmax()) != label for t, label in enumerate(labels))
    loss = component("loss", "framewise")
    assert float(loss(log_probs, LENGTHS, framewise_batch(FRAMEWISE_TEXTS))) == pytest.approx(
        sum(expected) / 6, rel=1e-5
    )
    assert float(loss.frame_rates(log_probs, LENGTHS, framewise_batch(FRAMEWISE_TEXTS))["fer"]) == pytest.approx(
        wrong / 50
    )


def test_padding_has_no_gradient_and_no_frames_no_loss() -> None:
    log_probs = torch.randn(2, 6, ALPHABET.outputs).log_softmax(dim=-1).requires_grad_()
    loss = component("loss", "framewise")(log_probs, torch.tensor([4, 0]), framewise_batch(["ab", "c"]))
    loss.backward()
    assert log_probs.grad is not None
    assert log_probs.grad[0, :4].abs().sum() > 0
    assert log_probs.grad[0, 4:].abs().sum() + log_probs.grad[1].abs().sum() == 0


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


def test_a_letter_lasts_until_the_next_begins():
    for path, labels, expected in (
        ([0, 1, 0, 0, 2, 0], [1, 2], [1, 1, 1, 1, 2, 2]),  # what is blank belongs to the letter before, or the first
        ([1, 0, 0, 1, 0], [1, 1], [1, 1, 0, 1, 1]),  # one blank parts equal letters
        ([1, 1, 0, 1], [1, 1], [1, 1, 0, 1]),
        ([0, 0], [], [0, 0]),
    ):
        assert frame_labels(sure(path), labels).tolist() == expected
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


def test_what_cannot_be_is_one_line(teacher, tiny_corpus, tmp_path):
    polish = data_of(tiny_corpus, "alphabet=en", "alphabet.characters='abcdefghijklmnopqrstuvwxyz ąę'")
    with pytest.raises(UsageError, match=r"its alphabet is"):
        Aligned(run=str(teacher), reduction="frame").prepare(polish.sets, torch.device("cpu"))
    held = data_of(tiny_corpus, "cache=features", f"cache.root={tmp_path}")
    for file in (teacher / "alignments").glob("*.npz"):
        file.unlink()
    with pytest.raises(UsageError, match=r"cache=features: expected pcm or none, because loss=aligned needs audio"):
        Aligned(run=str(teacher), reduction="frame").prepare(held.sets, torch.device("cpu"))
