"""Training on chunks: features and labels are those of the whole utterance, cut at the same frames."""

import itertools
from typing import Any

import pytest
import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Batch
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.assembly import assemble
from asr_ablations.training.utterance_chunks import Chunks
from tests.helpers.support import component, compose, standing_corpus

ALPHABET = Alphabet("abc ")
TEXTS = ["abc cab", "a", "bb"]
LENGTHS = torch.tensor([230, 40, 0])


def batch() -> Batch:
    labels = [ALPHABET.encode(text) for text in TEXTS]
    return Batch(
        audio=torch.zeros(0, dtype=torch.int16),
        lengths=160 * LENGTHS,
        targets=torch.tensor(list(itertools.chain(*labels))),
        target_lengths=torch.tensor([len(x) for x in labels]),
        ids=["1", "2", "3"],
        texts=TEXTS,
    )


@pytest.fixture(scope="module")
def chunks() -> Chunks:
    order = component("order", "chunked", length=100, overlap=50)
    return Chunks(order, component("loss", "framewise"), batch(), FEATURES, LENGTHS)


FEATURES = torch.randn(3, 230, 4, generator=torch.Generator().manual_seed(0))


def test_a_chunk_has_the_features_of_its_frames_and_zeros_behind(chunks: Chunks) -> None:
    """Chunks from frames 0, 50, 100 and 150 of the first utterance, one of each other; the third has no frame."""
    assert chunks.lengths.tolist() == [100, 100, 100, 80, 40, 0]
    for row, start in zip(chunks.features, (0, 50, 100, 150), strict=False):
        end = min(start + 100, 230)
        assert torch.equal(row[: end - start], FEATURES[0, start:end])
        assert not row[end - start :].any()
    assert torch.equal(chunks.features[4, :40], FEATURES[1, :40])


def test_labels_are_cut_where_the_features_are(chunks: Chunks) -> None:
    """With an output frame for each feature frame, a chunk has the whole utterance's labels from its start on."""
    whole = component("loss", "framewise").labels(batch(), LENGTHS, 230)
    cut = chunks.labelled(chunks.lengths, 100)
    assert cut.ids == ["1"] * 4 + ["2", "3"]
    assert cut.frame_labels is not None
    for row, length, start in zip(cut.frame_labels, chunks.lengths.tolist(), (0, 50, 100, 150), strict=False):
        assert torch.equal(row[:length], whole[0, start : start + length])


def test_an_output_frame_of_two_feature_frames_has_the_label_of_the_first(chunks: Chunks) -> None:
    whole = component("loss", "framewise").labels(batch(), LENGTHS, 230)
    cut = chunks.labelled(chunks.lengths // 2, 50)
    assert cut.frame_labels is not None
    assert torch.equal(cut.frame_labels[1], whole[0, 50:150:2])


def test_one_chunk_as_long_as_the_utterance_is_the_whole_loss() -> None:
    """Of whole utterances the loss is the same to the last bits, with the linear alignment of output frames."""
    loss = component("loss", "framewise")
    one = Chunks(component("order", "chunked", length=1000, overlap=0), loss, batch(), FEATURES, LENGTHS)
    log_probs = torch.randn(3, 230, ALPHABET.outputs, generator=torch.Generator().manual_seed(1)).log_softmax(dim=-1)
    cut = one.labelled(LENGTHS, 230)
    assert torch.equal(one.features, FEATURES * (torch.arange(230) < LENGTHS[:, None])[..., None])
    assert loss(log_probs, LENGTHS, cut) == loss(log_probs, LENGTHS, batch())
    assert loss.frame_rates(log_probs, LENGTHS, cut) == loss.frame_rates(log_probs, LENGTHS, batch())


def assembled(*overrides: str) -> Any:
    cfg = compose("width=8", "layers=1", "order=chunked", "order.length=20", "order.overlap=5", *overrides)
    return assemble(cfg, standing_corpus())[0]  # type: ignore[arg-type]


def test_ctc_refuses_chunks_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"CTC.*whole utterance.*label for each frame.*order=bucketed"):
        assembled()


def test_a_chunk_of_a_step_is_trained_on_as_if_it_were_alone() -> None:
    """The loss of a step is the mean over chunks that are cut by hand, each forwarded by itself. Without batch norm,
    in which batch mates matter.
    """
    task = assembled("loss=framewise", "norm=none", "dropout=0.0")
    seen = {}
    task.log = lambda name, value, **_: seen.update({name: value})
    own = Batch(
        audio=(torch.randn(16000, generator=torch.Generator().manual_seed(2)) * 3000).short(),
        lengths=torch.tensor([16000]), targets=torch.tensor([1, 2, 3]), target_lengths=torch.tensor([3]),
        ids=["1"], texts=["abc"],
    )  # fmt: skip
    loss = task.training_step(own, 0)
    features, (frames,) = task.normalised_features(own)
    whole = task.loss.labels(own, torch.tensor([int(frames)]), int(frames))[0]
    losses = []
    for start in range(0, int(frames) - 5, 15):
        piece = features[:, start : start + 20]
        log_probs, lengths = task.log_probs(piece, torch.tensor([piece.shape[1]]))
        places = torch.arange(int(lengths)) * piece.shape[1] // int(lengths)
        nats = -log_probs[0, : int(lengths)].gather(1, whole[start + places][:, None])
        losses.append(nats.mean())
    assert loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)
    assert seen.keys() >= {"train/loss", "train/fer", "train/padding_percent"}
