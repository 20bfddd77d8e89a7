"""The project's task on frames that have labels: its model, loss and logging, features and labels from a file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

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
from asr_benchmarks.toolkit.frames import Frames, Settings
from asr_benchmarks.toolkit.network import Network


@dataclass
class FrameBatch:
    """features (B, T, D), labels (B, T), lengths (B,) on the CPU."""

    features: torch.Tensor
    labels: torch.Tensor
    lengths: torch.Tensor
    ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device, non_blocking: bool = True) -> "FrameBatch":
        features, labels = (x.to(device, non_blocking=non_blocking) for x in (self.features, self.labels))
        return FrameBatch(features, labels, self.lengths)

    def padding(self) -> float:
        """Chunks are of one length."""
        return 0.0


class Batches:
    """An epoch's batches of one rank, for Lightning. number: of the epoch, from 0."""

    def __init__(self, frames: Frames, rank: int, ranks: int) -> None:
        self.frames, self.rank, self.ranks, self.number = frames, rank, ranks, 0

    def __len__(self) -> int:
        return len(self.frames.epoch(0, self.rank, self.ranks))

    def __iter__(self) -> Iterator[FrameBatch]:
        for x, y in self.frames.batches(self.number, self.rank, self.ranks):
            yield FrameBatch(x, y, torch.full((len(x),), x.shape[1]))


class LabelledFrames(Framewise):
    """The framewise loss with the batch's own labels."""

    def labels(self, batch: Any, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        labels: torch.Tensor = batch.labels
        return labels


class GivenFeatures(nn.Module):
    """In place of features of audio: those of a batch come from a file."""

    size = 0

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """The lengths as they are: they count frames already."""
        return lengths


class FrameTask(CTCTask):
    """The task without audio, text, clipping and schedule; the norm of the gradient is logged as ever."""

    def __init__(self, model: AcousticModel, optimizer: OptimizerFactory, seed: int) -> None:
        super().__init__(
            model=model,
            features=GivenFeatures(),
            augment=NoAugmentation(),
            decoder=lambda log_probs, lengths: [],
            optimizer=optimizer,
            schedule=constant,
            gradient=ClipNorm(limit=None),
            loss=LabelledFrames(),
            alphabet=Alphabet("-"),
            validation_sets=[],
            seed=seed,
            augment_seed=seed,
        )

    def configure_optimizers(self) -> Any:
        return self.make_optimizer(self.model.parameters())

    def normalised_features(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return batch.features, batch.lengths


class LeanTask(FrameTask):
    """Softmax and loss in one call, no norm of the gradient, no rates of training frames; the loss logged an epoch."""

    def training_step(self, batch: Any, batch_index: int) -> torch.Tensor:
        logits, _ = self.model(batch.features, batch.lengths)
        loss = cross_entropy(logits.float().flatten(0, 1), batch.labels.flatten())
        self.log("train/loss", loss, on_step=False, on_epoch=True, batch_size=len(batch))
        return loss

    def configure_gradient_clipping(self, *arguments: Any, **keywords: Any) -> None:
        pass


def model(settings: Settings, rnn: Callable[[int, int], nn.Module]) -> DeepSpeech2:
    """The project's model without convolutions, with the layers of rnn=; where these are the LSTM's, its first weights
    are those of Network.
    """
    made = DeepSpeech2(
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
        dropout=0.0,
    )
    start = as_in_model(Network(settings).state_dict())
    if start.keys() == {key for key in made.state_dict() if not key.endswith("_extra_state")}:
        made.load_state_dict(start, strict=False)
    return made


def as_in_model(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights of a Network under the names of the project's model."""
    named = {}
    for key, value in state.items():
        name, _, layer = key.removeprefix("lstm.").rpartition("_l")
        named[f"recurrent.{layer}.forwards.cell.{name}_l0" if key.startswith("lstm.") else key] = value
    return named
