"""Contracts of the parts that a training is built from: one for each config group.

Tensors are batch-first. Lengths (B,) are int64 on the CPU, so that reading them does not wait for the device.
A length may be 0. Padding never changes the frames before it (padding invariance), and an utterance's result does not
depend on the rest of its batch; only batch normalisation in training may mix valid frames of a batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""A checkpoint in memory: tensors and plain values by name, from Lightning and from callbacks."""


class Features(Protocol):
    """features: from waveforms to frames. Also an nn.Module, whose buffers move to the model's device.

    Computed in float32 and without gradients at any precision of the run. The caller then normalises each bin of each
    utterance to mean 0 and standard deviation 1, so constant factors and offsets change nothing. Optional attribute:
    `variance`, false if the caller should remove the mean only.
    """

    size: int
    """F: features per frame."""

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return frames (B,) for lengths (B,) in samples; 0 if the audio is too short for a frame."""

    def __call__(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(waveforms (B, S) in -1..1, lengths (B,) in samples) → (features (B, T, F), lengths (B,) in frames)."""


class AcousticModel(Protocol):
    """model: from features to logits. Also an nn.Module. Built with the keyword arguments features (F), outputs (V),
    rnn and norm, in addition to the arguments of its yaml.

    The caller computes log-probabilities in float32. pretrain=layers needs a GrowingModel. Optional attribute:
    `unread`, the groups among rnn and norm that the model does not use; choosing an option of these is refused.
    """

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return output frames (B,) for feature frames (B,), as a call with any T does; 0 gives 0."""

    def __call__(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(normalised features (B, T, F), lengths (B,) in frames) → (logits (B, T', V), lengths (B,) in output frames).
        If T is too short for one output frame, T' is 0.
        """


@runtime_checkable
class GrowingModel(Protocol):
    """A model whose recurrent layers can be added during training."""

    active_layers: int
    """Recurrent layers in use, counted from the input; the state_dict keeps it."""


@runtime_checkable
class Recurrent(Protocol):
    """One recurrent layer, forwards in time. Also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(x (B, T, D), lengths (B,) in frames) → (B, T, H). A frame depends on itself and earlier frames only, so
        padding after an utterance does not matter; the caller sets the rows past a length to 0.
        """


class RecurrentFactory(Protocol):
    """rnn: from sizes to a layer."""

    def __call__(self, input_size: int, hidden_size: int, /) -> nn.Module:
        """Build a Recurrent layer with D = input_size and H = hidden_size. Its weights are its own parameters, or
        parameters of torch's recurrent modules within it, where initialisations recognise the gates.
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
        """Build a Norm for frames of shape (F, C) (columns of an image) or (D,) (outputs of a recurrent layer)."""


class Initialisation(Protocol):
    """init: draws the weights of a new model in place, from torch's global generator alone."""

    def __call__(self, model: nn.Module) -> None:
        """Biases and vectors may stay unchanged; each gate of a recurrent layer is a separate matrix."""


class Decoder(Protocol):
    """From log-probabilities to texts; blank is index 0. Length 0 gives "".

    Optional attributes:
    `searches`: true if decoding an untrained model would take long;
    `tuned`: names of weights to tune on a development set, each an attribute that may be set between two calls;
    `files`: paths of the files that it reads, by key.
    """

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        """(log_probs (B, T, V) in nats, lengths (B,)) → B texts, with one space between words and none at the ends."""


class DecoderFactory(Protocol):
    """decoder: from an alphabet to a decoder."""

    def __call__(self, alphabet: Alphabet) -> Decoder:
        """Raises UsageError for values out of range, and for files that are missing, damaged or of another alphabet."""


class OptimizerFactory(Protocol):
    """optimizer: from the parameters of a model to a torch optimizer."""

    def __call__(self, parameters: Iterable[nn.Parameter], /) -> Optimizer:
        """Parameters without a gradient must not change. Raises ValueError for values out of range."""


class ScheduleFactory(Protocol):
    """schedule: the learning rate over a training."""

    def __call__(self, optimizer: Optimizer, total_steps: int) -> LRScheduler:
        """Build a schedule that multiplies the optimizer's rate for total_steps >= 1 optimizer steps, then is constant.
        It is stepped after every optimizer step, but a MonitoredSchedule after every epoch. Its state_dict restores it.
        Raises ValueError for values out of range.
        """


@runtime_checkable
class MonitoredSchedule(Protocol):
    """A schedule stepped after each validation. monitor: one of metrics_files.FIGURES, of the first validation set."""

    monitor: str

    def step(self, figure: float | None = None) -> None:
        """Step with the figure of an epoch; lower is better. torch itself takes a first step without one."""


Log: TypeAlias = Callable[[str, float | torch.Tensor], None]
"""Logs a figure of one step by its name: a number, or a tensor () on the device, for which logging does not wait.

An epoch's figure is the mean over its steps with a finite value.
"""


class GradientTreatment(Protocol):
    """gradient: changes gradients before and weights after a step of the optimizer.

    Gradients arrive unscaled, and averaged over ranks that train together; each rank must change them alike. If the
    treatment is also an nn.Module, checkpoints keep its buffers.
    """

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        """Change the gradients in place; they may be None, or infinite under float16. step: of the optimizer, from 0.
        Random draws depend on (seed, step) only.
        """

    def after_step(self, parameters: Sequence[nn.Parameter], log: Log) -> None:
        """Change the weights in place; does nothing by default."""
        return None


class Loss(Protocol):
    """loss: from log-probabilities to the number that is minimised."""

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Derive what the loss needs from the data. Every rank calls this before the first step."""

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        """(log_probs (B, T, V) in nats, float32, lengths (B,) in output frames, batch) → nats (), over the
        utterances of the batch. Finite, with finite gradients, for length 0 and an empty transcript.
        """

    def weight(self, batch: Batch) -> int:
        """Return the weight of a batch in means: its number of utterances if the loss averages them, else 1."""

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> Mapping[str, torch.Tensor]:
        """Return rates () in 0..1 over the valid frames of a batch, by name. Empty if the loss lacks frame labels."""


@runtime_checkable
class FrameLoss(Loss, Protocol):
    """A loss with a label for each frame: from `batch.frame_labels` if set, else from the loss itself."""

    def labels(self, batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Return labels (B, T = frames) on the targets' device; lengths (B,) count the same frames, of any kind."""


@runtime_checkable
class CuttingOrder(Protocol):
    """An order that trains on chunks of utterances, with a FrameLoss; validation uses whole utterances."""

    def chunks(self, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return utterance, first frame and length of each chunk, (N,) each, for lengths (B,) in frames on the CPU."""


class Penalty(Protocol):
    """penalty: a term of the weights that is added to the training loss, not to the validation loss."""

    def __call__(self, model: nn.Module) -> torch.Tensor:
        """Return nats (), in float32, with gradients."""


class ParallelTraining(pl.Callback, ABC):
    """trainer: how several ranks train one model; a callback, so that it can act between steps."""

    @abstractmethod
    def strategy(self, leaves_weights_out: bool) -> DDPStrategy:
        """Return Lightning's strategy for several ranks. leaves_weights_out: as in Pretraining."""


class Pretraining(pl.Callback):
    """pretrain: a callback that chooses the trained part of the model, by the epoch alone."""

    leaves_weights_out: bool
    """True if some parameters temporarily get no gradient."""


class Stopping(pl.Callback):
    """stopping: a callback that may end the training after an epoch, by its figures alone; all ranks end together."""


class Debugging(pl.Callback):
    """debug: a callback that shortens a run to find mistakes; the run's results do not count."""

    batches: int | None
    """Batches to keep of each set; None keeps all."""
    folder: Path | None = None
    """The run folder, set before training; None if only time is measured."""


class WeightAveraging(pl.Callback):
    """averaging: a callback that averages weights, while training continues from the trained ones.

    Validation, the final evaluation and a checkpoint's state_dict use the average. A resumed run has the same average.
    """


class TrainingCallbacks(NamedTuple):
    """The callbacks that a config names, in order of action: workers agree on weights before these are averaged."""

    parallel: ParallelTraining
    pretrain: Pretraining | None
    averaging: WeightAveraging | None
    stopping: Stopping | None
    debug: Debugging | None


class LoggerFactory(Protocol):
    """logger: from a run to a Lightning logger, which may have the methods of the three protocols below."""

    def __call__(self, run: Run) -> Logger | None:
        """Build the logger, or return None. Only the first rank calls it; it must not wait for anything."""


class Recording(NamedTuple):
    """An utterance within its audio file: offset and duration in seconds, channel as in Utterance."""

    path: str
    offset: float
    seconds: float
    channel: int


@runtime_checkable
class LoggerOfTables(Protocol):
    """A logger that shows tables; it receives example transcripts of training and of the final evaluation."""

    def log_table(
        self,
        key: str,
        columns: list[str],
        data: list[list[str]],
        *,
        step: int | None = None,
        recordings: Sequence[Recording] = (),
    ) -> None:
        """Log rows as the table `key`. step: of the optimizer, None after training. recordings: one per row."""


@runtime_checkable
class LoggerWithSummary(Protocol):
    """A logger that keeps values of a whole run; it receives the run's part in a plan."""

    def log_summary(self, values: Mapping[str, float | str]) -> None:
        """Keep these values; a later call replaces them by name."""


@runtime_checkable
class LoggerWithExitCode(Protocol):
    """A logger that must be ended: with the exit code of the run, after everything was logged."""

    def finish(self, exit_code: int) -> None:
        """End the logger. exit_code: 0 if the run is done or pruned, 1 if it failed."""


class PruningFactory(Protocol):
    """pruning: from a run folder to a callback that may raise Pruned between two epochs."""

    def __call__(self, folder: Path, key: str) -> pl.Callback:
        """key: a column of metrics.csv; lower is better."""


class UntilFactory(Protocol):
    """until: the plan by which a sweep adds runs. It is built without torch."""

    def __call__(self) -> object:
        """Raises UsageError for values out of range."""
