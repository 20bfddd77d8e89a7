"""Contracts of the parts of a training, one for each config group. A docstring begins with the name of its group.

Tensors are batch-first. Lengths (B,) are int64 on the CPU, so that reading them does not wait for the device. A length
may be 0. Padding never changes the frames before it (padding invariance), and the result of an utterance does not
depend on the rest of its batch. The only exception is batch normalisation in training, which mixes valid frames.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import Logger
from pytorch_lightning.strategies import DDPStrategy
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import Speech
from asr_ablations.runs.folder import Run

Checkpoint: TypeAlias = dict[str, Any]
"""Content of a checkpoint: tensors and plain values by name, from Lightning and from callbacks."""


class Features(Protocol):
    """features: computes frames from waveforms. It is also an nn.Module, whose buffers move to the model's device.

    It is computed in float32 and without gradients at any precision of the run. The caller then normalises each bin of
    each utterance to mean 0 and standard deviation 1, so constant factors and offsets change nothing. Optional
    attribute: `variance`, which is false if the caller should subtract the mean only.
    """

    size: int
    """Number of features per frame (F)."""

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the number of frames (B,) for lengths (B,) in samples; 0 if the audio is too short for a frame."""

    def __call__(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(waveforms (B, S) in -1..1, lengths (B,) in samples) → (features (B, T, F), lengths (B,) in frames)."""


class AcousticModel(Protocol):
    """model: computes logits from features. It is also an nn.Module, and pretrain=layers needs a GrowingModel.

    It is built with the keyword arguments features (F), outputs (V), rnn and norm, in addition to those in its yaml.
    The caller computes log-probabilities from the logits in float32. Optional attribute: `unread`, the groups among rnn
    and norm that the model does not use. A run that chooses an option of such a group is refused.
    """

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the number of output frames (B,) for numbers of feature frames (B,). 0 gives 0."""

    def __call__(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(normalised features (B, T, F), lengths (B,) in frames) → (logits (B, T', V), lengths (B,) in output frames).
        If T is too short for one output frame, T' is 0.
        """


@runtime_checkable
class GrowingModel(Protocol):
    """A model whose recurrent layers can be added during training."""

    active_layers: int
    """Number of recurrent layers in use, counted from the input. The state_dict contains it."""


@runtime_checkable
class Recurrent(Protocol):
    """One recurrent layer that runs forwards in time. It is also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(x (B, T, D), lengths (B,) in frames) → (B, T, H). A frame depends only on itself and on earlier frames, so
        padding after an utterance does not matter. The caller sets the rows past a length to 0.
        """


class RecurrentFactory(Protocol):
    """rnn: builds a recurrent layer."""

    def __call__(self, input_size: int, hidden_size: int, /) -> nn.Module:
        """Build a Recurrent layer with D = input_size and H = hidden_size. Its weights are parameters of the layer or
        of torch's recurrent modules in it, whose gates initialisations recognise.
        """


class Norm(Protocol):
    """A normalisation within a model. It is also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(x (B, T, …, D), lengths (B,) in frames) → the same shape and dtype. Statistics ignore padding, and a batch
        without valid frames does not change running statistics.
        """


class NormFactory(Protocol):
    """norm: builds a normalisation for frames of a given shape."""

    def __call__(self, frame: Sequence[int], /) -> nn.Module:
        """Build a Norm for frames of shape (F, C) (bins, channels) or (D,) (outputs of a recurrent layer)."""


class Initialisation(Protocol):
    """init: draws the weights of a new model in place, only from torch's global random generator."""

    def __call__(self, model: nn.Module) -> None:
        """Draw each gate of a recurrent layer as a separate matrix. Biases and vectors may stay unchanged."""


class Decoder(Protocol):
    """Finds texts from log-probabilities. The blank has index 0, and length 0 gives "".

    Optional attributes:
    `searches`: true if decoding the output of an untrained model would take long;
    `tuned`: names of attributes to tune on a development set, which may be set between two calls;
    `files`: paths of the files that it reads, by config key.
    """

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        """(log_probs (B, T, V) in nats, lengths (B,)) → B texts, with a single space between words and no others."""


@runtime_checkable
class RescoringDecoder(Decoder, Protocol):
    """A decoder that also reads the layer of the model's auxiliary loss. Only evaluations can use it."""

    def attach(self, model: nn.Module) -> None:
        """Copy the auxiliary loss of a trained model. Raise UsageError if the model has another one or none."""

    def rescore(self, log_probs: torch.Tensor, activations: torch.Tensor) -> str:
        """(log_probs (T, V) in nats, activations (T, D) of the auxiliary's layer) → the text of one utterance."""


class Condition(Protocol):
    """condition: alters the recordings that an evaluation decodes. Random draws come from `rng` alone.

    `rng` is seeded by `condition_seed` and the utterance's id, so every run and process hears the same recording.
    """

    changes: bool
    """Whether it changes any samples. If not, sets keep their name and log-probabilities of the plain recordings."""

    def __call__(self, samples: np.ndarray, id_: str, rng: np.random.Generator) -> np.ndarray:
        """Return int16 samples (S,) for the samples (S,) of an utterance at 16 kHz. S may be 0."""


class DecoderFactory(Protocol):
    """decoder: builds a decoder for an alphabet."""

    def __call__(self, alphabet: Alphabet) -> Decoder:
        """Raise UsageError for values out of range, and for files that are missing, damaged or of another alphabet."""


class OptimizerFactory(Protocol):
    """optimizer: builds a torch optimizer for the parameters of a model."""

    def __call__(self, parameters: Iterable[nn.Parameter], /) -> Optimizer:
        """Raise ValueError for values out of range. The optimizer must not change parameters without a gradient."""


class ScheduleFactory(Protocol):
    """schedule: builds the schedule of the learning rate."""

    def __call__(self, optimizer: Optimizer, total_steps: int) -> LRScheduler:
        """Build a schedule that scales the optimizer's learning rate for total_steps >= 1 steps and is constant after.
        It is stepped after every optimizer step, but a MonitoredSchedule after every validation. Its state_dict
        restores it. Raise ValueError for values out of range.
        """


@runtime_checkable
class MonitoredSchedule(Protocol):
    """A schedule that is stepped after each validation, with a value of the first validation set."""

    monitor: str
    """Name of the value, one of metrics_files.FIGURES. Lower is better."""

    def step(self, figure: float | None = None) -> None:
        """Step with the value of an epoch. torch itself takes a first step without a value."""


Log: TypeAlias = Callable[[str, float | torch.Tensor], None]
"""Logs a value of one step under a name: a number, or a tensor () on the device, for which logging does not wait.

The value of an epoch is the mean over its steps, without values that are not finite.
"""


class GradientTreatment(Protocol):
    """gradient: changes the gradients before an optimizer step, and the weights after it.

    The gradients are unscaled, and averaged over ranks that train together. Each rank must change them in the same way.
    If the treatment is also an nn.Module, checkpoints contain its buffers.
    """

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        """Change the gradients in place. A gradient may be None, or infinite under float16. step: number of the
        optimizer step, from 0. Random draws depend only on (seed, step).
        """

    def after_step(self, parameters: Sequence[nn.Parameter], log: Log) -> None:
        """Change the weights in place. The default does nothing."""
        return None


class Loss(Protocol):
    """loss: computes the number to minimise from log-probabilities.

    Optional attribute: `views`, the number of times that a training batch is augmented. The views follow each other in
    one batch, whose `views` is that number.
    """

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Prepare the loss for the data. Every rank calls this before the first step."""

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        """(log_probs (B, T, V) in nats, float32, lengths (B,) in output frames, batch) → loss () of the batch in nats.
        The loss and its gradients are finite even for length 0 and an empty transcript.
        """

    def weight(self, batch: Batch) -> int:
        """Return the weight of a batch in means: the number of utterances if the loss is a mean over them, else 1."""

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> Mapping[str, torch.Tensor]:
        """Return rates () in 0..1 over the valid frames of a batch, by name. Empty without labels for frames."""


@runtime_checkable
class FrameLoss(Loss, Protocol):
    """A loss with a label for each frame. It takes `batch.frame_labels` if set, and else finds the labels itself."""

    def labels(self, batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Return labels (B, frames) on the targets' device. lengths: valid frames (B,) of each utterance."""


@runtime_checkable
class CuttingOrder(Protocol):
    """An order of batches that trains on chunks of utterances. It needs a FrameLoss. Validation uses no chunks."""

    def chunks(self, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the utterance (N,), first frame (N,) and length (N,) of each chunk, for lengths (B,) in frames."""


class Penalty(Protocol):
    """penalty: a function of the weights that is added to the training loss, but not to the validation loss."""

    def __call__(self, model: nn.Module) -> torch.Tensor:
        """Return the penalty () in nats, in float32 and with gradients."""


class Auxiliary(Protocol):
    """A loss on the activations of a layer that training adds to the main loss. It is also an nn.Module.

    It is part of the model's weights, but not of recognition. Its result does not depend on padding.
    """

    name: str
    """Its name in metrics.csv, as in train/inter_ctc."""
    layer: str
    """Name of the layer, as in model.txt, whose output (B, T', D) has a row for each output frame."""
    weight: float
    """Factor of the loss. The main loss has the factor 1."""

    def __call__(self, activations: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        """(activations (B, T', D), lengths (B,) in output frames, batch) → loss () in nats, float32.
        The loss and its gradients are finite even for length 0 and an empty transcript.
        """


class AuxiliaryFactory(Protocol):
    """auxiliary: builds a loss on a layer of a new model, which learns together with the model."""

    def __call__(self, model: nn.Module, features: int, outputs: int, /) -> nn.Module:
        """Build an Auxiliary for a model with F = features and V = outputs. Raise UsageError for an unknown layer."""


class ParallelTraining(pl.Callback, ABC):
    """trainer: how several ranks train one model. It is a callback, so that it can act between steps."""

    @abstractmethod
    def strategy(self, leaves_weights_out: bool) -> DDPStrategy:
        """Return Lightning's strategy for several ranks. leaves_weights_out: see Pretraining."""


class Pretraining(pl.Callback):
    """pretrain: a callback that chooses which part of the model is trained. It depends only on the epoch."""

    leaves_weights_out: bool
    """Whether some parameters get no gradient for a time."""


class Stopping(pl.Callback):
    """stopping: a callback that may end the training after an epoch. It uses logged values, which all ranks share."""


class Debugging(pl.Callback):
    """debug: a callback that shortens a run to find mistakes. The results of such a run do not count."""

    batches: int | None
    """Number of batches to keep of each set; None keeps all."""
    folder: Path | None = None
    """The run folder, which is set before training; None in measurements of speed."""


class WeightAveraging(pl.Callback):
    """averaging: a callback that averages the weights of several steps. Training itself does not use the average.

    Validation, the final evaluation and the state_dict of a checkpoint use it. A resumed run has the same average.
    """


class TrainingCallbacks(NamedTuple):
    """Callbacks that a config names, in the order in which they act: ranks agree on weights before averaging."""

    parallel: ParallelTraining
    pretrain: Pretraining | None
    averaging: WeightAveraging | None
    stopping: Stopping | None
    debug: Debugging | None


class LoggerFactory(Protocol):
    """logger: builds the Lightning logger of a run. It may have the methods of the three protocols below."""

    def __call__(self, run: Run) -> Logger | None:
        """Build the logger, or return None. Only the first rank calls this, so it must not wait for other ranks."""


class Recording(NamedTuple):
    """Place of an utterance in an audio file: offset and duration in seconds, channel as in Utterance."""

    path: str
    offset: float
    seconds: float
    channel: int


@runtime_checkable
class LoggerOfTables(Protocol):
    """A logger that shows tables. It receives example transcripts of the training and of the final evaluation."""

    def log_table(
        self,
        key: str,
        columns: list[str],
        data: list[list[str]],
        *,
        step: int | None = None,
        recordings: Sequence[Recording] = (),
    ) -> None:
        """Log rows as the table `key`. step: optimizer step; None after training. recordings: audio of each row."""


@runtime_checkable
class LoggerWithSummary(Protocol):
    """A logger that keeps values of a whole run, such as its sizes, its times and its part in a plan."""

    def log_summary(self, values: Mapping[str, float | str]) -> None:
        """Keep these values. A later call replaces values of the same name."""


@runtime_checkable
class LoggerWithExitCode(Protocol):
    """A logger that must be ended with the exit code of the run."""

    def finish(self, exit_code: int) -> None:
        """End the logger after everything was logged. exit_code: 0 if the run is done or pruned, 1 if it failed."""


class PruningFactory(Protocol):
    """pruning: builds a callback that may end a run early. It raises Pruned between two epochs."""

    def __call__(self, folder: Path, key: str) -> pl.Callback:
        """Build the callback for a run folder. key: the column of metrics.csv to compare; lower is better."""


class UntilFactory(Protocol):
    """until: builds the plan by which a sweep adds runs, without importing torch."""

    def __call__(self) -> object:
        """Build the plan. Raise UsageError for values out of range."""
