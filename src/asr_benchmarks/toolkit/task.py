"""This project's task on labelled frames: model, loss and logging, with features and labels from a file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.components.gradient.norm import ClipNorm
from asr_ablations.components.loss.framewise import Framewise
from asr_ablations.components.model.convolution import PaddedConvolution
from asr_ablations.components.model.ds2 import DeepSpeech2
from asr_ablations.components.norm.none import NoNorm
from asr_ablations.components.schedule.constant import constant
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.training.contracts import AcousticModel, OptimizerFactory
from asr_ablations.training.task import CTCTask
from asr_benchmarks.toolkit.network import Frames, Network, Settings


@dataclass
class FrameBatch:
    """A batch: features (B, T, D), frame_labels (B, T) for the framewise loss, and lengths (B,) on the CPU."""

    features: torch.Tensor
    frame_labels: torch.Tensor
    lengths: torch.Tensor
    ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device, non_blocking: bool = True) -> "FrameBatch":
        features, labels = (x.to(device, non_blocking=non_blocking) for x in (self.features, self.frame_labels))
        return FrameBatch(features, labels, self.lengths)

    def padding(self) -> float:
        """Return the share of padding: 0, because all chunks have the same length."""
        return 0.0


class Batches:
    """The batches of an epoch for one rank, as Lightning reads them. number: of the epoch, from 0."""

    def __init__(self, frames: Frames, rank: int, ranks: int) -> None:
        self.frames, self.rank, self.ranks, self.number = frames, rank, ranks, 0

    def __len__(self) -> int:
        return len(self.frames.epoch(0, self.rank, self.ranks))

    def __iter__(self) -> Iterator[FrameBatch]:
        for x, y in self.frames.batches(self.number, self.rank, self.ranks):
            yield FrameBatch(x, y, torch.full((len(x),), x.shape[1]))


class GivenFeatures(nn.Module):
    """Replaces the features of audio, because a batch's features come from a file."""

    size = 0

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the lengths unchanged, because they count frames."""
        return lengths


class FrameTask(CTCTask):
    """The task without audio, text, clipping and schedule; it still logs the norm of the gradient."""

    def __init__(self, model: AcousticModel, optimizer: OptimizerFactory, seed: int) -> None:
        super().__init__(
            model=model,
            features=GivenFeatures(),
            augment=NoAugmentation(),
            decoder=lambda log_probs, lengths: [],
            optimizer=optimizer,
            schedule=constant,
            gradient=ClipNorm(limit=None),
            loss=Framewise(reduction="frame"),
            penalty=None,
            alphabet=Alphabet("-"),
            validation_sets=[],
            seed=seed,
            augment_seed=seed,
        )

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.make_optimizer(self.model.parameters())

    def normalised_features(self, batch: object) -> tuple[torch.Tensor, torch.Tensor]:
        assert isinstance(batch, FrameBatch)
        return batch.features, batch.lengths


class MinimalTask(FrameTask):
    """The task with softmax and loss in one call, and without logging gradient norm and frame rates."""

    def training_step(self, batch: object, batch_index: int) -> torch.Tensor:
        assert isinstance(batch, FrameBatch)
        logits, _ = self.model(batch.features, batch.lengths)
        loss = cross_entropy(logits.float().flatten(0, 1), batch.frame_labels.flatten())
        self.log("train/loss", loss, on_step=False, on_epoch=True, batch_size=len(batch))
        return loss

    def configure_gradient_clipping(self, *arguments: object, **keywords: object) -> None:
        """Leave the gradient unchanged."""


def build_project_model(settings: Settings, rnn: Callable[[int, int], nn.Module]) -> DeepSpeech2:
    """Build this project's model without convolutions. With LSTM layers, it has the first weights of Network."""
    model = DeepSpeech2(
        settings.features,
        settings.labels,
        convolution=PaddedConvolution,
        convolutions=[],
        rnn=rnn,
        norm=NoNorm,
        width=settings.width,
        layers=settings.layers,
        directions="forward",
        lookahead=0,
        fully_connected=1,
        dropout=0.0,
    )
    start = {}
    for key, value in Network(settings).state_dict().items():
        name, _, layer = key.removeprefix("lstm.").rpartition("_l")
        start[f"recurrent.{layer}.forwards.cell.{name}_l0" if key.startswith("lstm.") else key] = value
    if start.keys() == {key for key in model.state_dict() if not key.endswith("_extra_state")}:
        model.load_state_dict(start, strict=False)
    return model
