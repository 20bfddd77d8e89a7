"""The contracts of the parts that a training is put together from: one for each config group that it builds.

Tensors are batch-first. Lengths (B,) are int64 on the CPU, where they can be read without waiting for the device.
A length may be 0. What lies past a length never changes what lies before it (padding invariance), and an utterance's
result does not depend on its batch mates; only batch normalisation in training may mix valid frames of a batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import Logger
from pytorch_lightning.strategies import DDPStrategy
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Batch
from asr_ablations.data.dataset import Speech
from asr_ablations.runs.folder import Run

Checkpoint: TypeAlias = dict[str, Any]
"""A checkpoint in memory: tensors and plain values by name, Lightning's and those that callbacks add."""


class Features(Protocol):
    """features: from waveforms to frames. Also an nn.Module, whose buffers move to the model's device.

    Computed in float32 and without gradients, whatever the precision of the run. The caller normalises each bin of each
    utterance to mean 0 and deviation 1 afterwards: a constant factor or offset changes nothing. Optional attribute:
    `variance`, false where the caller is to remove the mean alone.
    """

    size: int
    """F: numbers in a frame."""

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Frames (B,) of waveforms with these lengths in samples (B,); 0 where there is not enough audio for one."""

    def __call__(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(waveforms (B, S) in -1..1, lengths (B,) in samples) → (features (B, T, F), lengths (B,) in frames)."""


class AcousticModel(Protocol):
    """model: from features to logits. Also an nn.Module. Built with the keyword arguments features (F), outputs (V),
    rnn and norm, beside the arguments of its yaml.

    Log-probabilities are taken in float32 by the caller. pretrain=layers needs a GrowingModel. Optional attribute:
    `unread`, the groups among rnn and norm that it does not use, which nobody may choose from then.
    """

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Output frames (B,) for feature frames (B,), 0 for 0; for any T, as in the result of a call."""

    def __call__(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(normalised features (B, T, F), lengths (B,) in frames) → (logits (B, T', V), lengths (B,) in output frames).
        T may be too short for one output frame: T' is 0 then.
        """


@runtime_checkable
class GrowingModel(Protocol):
    """A model whose recurrent layers can be added during training.

    active_layers: the number of recurrent layers that take part, from below, which the state_dict keeps.
    """

    active_layers: int


@runtime_checkable
class Recurrent(Protocol):
    """One layer in one direction, forwards in time. Also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(x (B, T, D), lengths (B,) in frames) → (B, T, H). A frame depends on itself and earlier frames only, so
        padding behind an utterance does not matter; the caller sets the rows past a length to 0.
        """


class RecurrentFactory(Protocol):
    """rnn: from sizes to a layer."""

    def __call__(self, input_size: int, hidden_size: int, /) -> nn.Module:
        """A Recurrent layer with D = input_size and H = hidden_size. Its weights are its own parameters, or
        parameters of torch's recurrent modules within it, by which initialisations know the gates.
        """


class Norm(Protocol):
    """A normalisation within a model. Also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(x (B, T, …, D), lengths (B,) in frames) → the same shape and dtype. Padding never enters a statistic, and a
        batch without a valid frame changes no running statistic.
        """


class NormFactory(Protocol):
    """norm: from the shape of a frame to a normalisation."""

    def __call__(self, frame: Sequence[int], /) -> nn.Module:
        """A Norm for frames of this shape: (F, C), an image's column, or (D,), a recurrent layer's output."""


class Initialisation(Protocol):
    """init: draws the weights of a new model in place, from torch's global generator alone."""

    def __call__(self, model: nn.Module) -> None:
        """Biases and vectors may stay as they are; the gates of a recurrent layer are matrices of their own."""


class Decoder(Protocol):
    """From log-probabilities to texts; blank is index 0. Length 0 gives "".

    Optional attributes: `searches`, true where an untrained model would take long to decode; `tuned`, the names of
    weights that are tuned on a development set, each an attribute that may be set between two calls; `files`, the paths
    of the files that it reads, by key.
    """

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        """(log_probs (B, T, V) in nats, lengths (B,)) → B texts, with one space between words and none at the ends."""


class DecoderFactory(Protocol):
    """decoder: from an alphabet to a decoder."""

    def __call__(self, alphabet: Alphabet) -> Decoder:
        """Raises UsageError for values out of range, and for files that are missing, damaged or of other letters."""


class OptimizerFactory(Protocol):
    """optimizer: torch's, from the parameters of a model."""

    def __call__(self, parameters: Iterable[nn.Parameter], /) -> Optimizer:
        """A parameter without a gradient must be left alone. Raises ValueError for values out of range."""


class ScheduleFactory(Protocol):
    """schedule: the learning rate over a training."""

    def __call__(self, optimizer: Optimizer, total_steps: int) -> LRScheduler:
        """A factor of the optimizer's own rate, for total_steps steps of the optimizer, 1 or more, and constant after
        them. It is stepped after every step of the optimizer, or after every epoch where it is a MonitoredSchedule.
        Its state_dict restores it. Raises ValueError for values out of range.
        """


@runtime_checkable
class MonitoredSchedule(Protocol):
    """A schedule that is stepped after each validation. monitor: a figure of runs.metrics.FIGURES, of the first
    validation set.
    """

    monitor: str

    def step(self, figure: float | None = None) -> None:
        """Take the figure of an epoch, lower is better. torch itself takes a first step without one."""


class Log(Protocol):
    """Logs a figure of one step. An epoch's figure is the mean over its steps with a finite value."""

    def __call__(self, name: str, value: float | torch.Tensor) -> None:
        """value: a number or a tensor () on the device, which is not waited for."""


class GradientTreatment(Protocol):
    """gradient: what is done to gradients and weights around a step of the optimizer.

    Gradients come unscaled, and averaged over ranks where these train together: each rank must do the same with them.
    One that is also an nn.Module has its buffers in checkpoints.
    """

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        """Change the gradients in place; one may be None, and under float16 infinite. step: of the optimizer, from 0.
        What is drawn depends on (seed, step) only.
        """

    def after_step(self, parameters: Sequence[nn.Parameter], log: Log) -> None:
        """Change the weights in place."""


class Loss(Protocol):
    """loss: from log-probabilities to the number that is minimised."""

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Make what the loss needs to know of the data; called before the first step, by every rank."""

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        """(log_probs (B, T, V) in nats, float32, lengths (B,) in output frames, batch) → nats (), over the
        utterances of the batch. Finite, with finite gradients, for length 0 and an empty transcript.
        """

    def weight(self, batch: Batch) -> int:
        """The weight of a batch in a mean over batches: its utterances if the loss is their mean, else 1."""

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> Mapping[str, torch.Tensor]:
        """Rates () over the valid frames of a batch, 0..1, by name; empty where the loss has no label for a frame."""


@runtime_checkable
class FrameLoss(Loss, Protocol):
    """A loss with a label for each frame: from `batch.frame_labels` where it is set, its own otherwise."""

    def labels(self, batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Labels (B, T) on the targets' device, for utterances of lengths (B,) in frames of any kind and T = frames."""


@runtime_checkable
class CuttingOrder(Protocol):
    """An order whose utterances are trained on in chunks, with a FrameLoss; validation sees them whole."""

    def chunks(self, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """For lengths (B,) in frames, on the CPU: utterance, first frame and length of each chunk, (N,) each."""


class Penalty(Protocol):
    """penalty: what the weights themselves add to the number that is minimised; validation leaves it out."""

    def __call__(self, model: nn.Module) -> torch.Tensor:
        """Nats (), float32, with gradients."""


class ParallelTraining(pl.Callback, ABC):
    """trainer: how several ranks train one model. With one rank it is plain training.

    A callback of Lightning, so that it can act between steps.
    """

    @abstractmethod
    def strategy(self, leaves_weights_out: bool) -> DDPStrategy:
        """Lightning's strategy for several ranks. leaves_weights_out: some parameters have no gradient for a while."""


class Pretraining(pl.Callback):
    """pretrain: a callback that changes which part of the model is trained, as a function of the epoch alone: a run
    that is resumed continues with the same part.
    """

    leaves_weights_out: bool
    """True if some parameters have no gradient for a while."""


class Stopping(pl.Callback):
    """stopping: a callback that may end the training after an epoch, by its validation figures alone. All ranks end
    together, and a run that is resumed ends where it would have ended.
    """


class Debugging(pl.Callback):
    """debug: a callback of a run that is shortened to find mistakes, and that says nothing of an ablation.

    batches: as many of each set take part as that many batches hold; None for all.
    """

    batches: int | None
    folder: Path | None = None
    """The run's, set before the training; None where a run has none, as where only its time is measured."""


class WeightAveraging(pl.Callback):
    """averaging: a callback that gives averaged weights to validation, to the final evaluation and to a checkpoint's
    state_dict, while training continues from the trained ones. A resumed run has the same average.
    """


class TrainingCallbacks(NamedTuple):
    """The callbacks that the config of a training names, in the order in which they act: workers agree on weights
    before these are averaged.
    """

    parallel: ParallelTraining
    pretrain: Pretraining | None
    averaging: WeightAveraging | None
    stopping: Stopping | None
    debug: Debugging | None


class LoggerFactory(Protocol):
    """logger: from a run to a logger of Lightning's, beside the tables of the run folder."""

    def __call__(self, run: Run) -> Logger | None:
        """None for no other logger. Called on the first rank only; must not wait for a network or a person.

        The logger may have methods beyond those of Lightning: see LoggerOfTables, LoggerWithSummary and
        LoggerWithExitCode.
        """


class Recording(NamedTuple):
    """An utterance in its file of audio; offset and duration in seconds; channel as in Utterance."""

    path: str
    offset: float
    seconds: float
    channel: int


@runtime_checkable
class LoggerOfTables(Protocol):
    """A logger that shows tables: it is given example transcripts of training and of the final evaluation."""

    def log_table(
        self,
        key: str,
        columns: list[str],
        data: list[list[str]],
        *,
        step: int | None = None,
        recordings: Sequence[Recording] = (),
    ) -> None:
        """Log the table `key`; data: rows with a value for each column; step: of the optimizer, None after training;
        recordings: of the rows, where there are any.
        """


@runtime_checkable
class LoggerWithSummary(Protocol):
    """A logger that keeps values of a whole run: it is given the run's part in a plan."""

    def log_summary(self, values: Mapping[str, float | str]) -> None:
        """Keep these values; a later call replaces them by name."""


@runtime_checkable
class LoggerWithExitCode(Protocol):
    """A logger whose own run has an end: it is ended with the exit code of the run, after everything was logged."""

    def finish(self, exit_code: int) -> None:
        """End the logger's run; exit_code: 0 for a run that is done or pruned, 1 for one that failed."""


class PruningFactory(Protocol):
    """pruning: from a run folder to a callback that may raise Pruned between two epochs."""

    def __call__(self, folder: Path, key: str) -> pl.Callback:
        """key: of metrics.csv, lower is better."""


class UntilFactory(Protocol):
    """until: the plan by which a sweep adds runs. It is built without torch."""

    def __call__(self) -> object:
        """Raises UsageError for values out of range."""
