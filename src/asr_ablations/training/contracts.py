"""Define the interfaces of the config groups. The docstring of a group's interface begins with the group's name.

Tensors are batch-first. Lengths (B,) are int64 on the CPU, so reading them does not wait for the device; they may be 0.
Padding never changes the frames before it (padding invariance). An utterance's result does not depend on the rest of
its batch, except through batch normalisation in training, whose statistics cover all valid frames of the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
from torch.optim.optimizer import ParamsT

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import Speech
from asr_ablations.runs.folder import Run

Checkpoint: TypeAlias = dict[str, Any]
"""Entries of a checkpoint by name: tensors and plain values from Lightning and from callbacks."""


class Features(Protocol):
    """features: computes frames from waveforms. It is also an nn.Module, whose buffers move to the model's device.

    Features are computed in float32 and without gradients, whatever the run's precision. The caller then normalises
    each feature of each utterance to mean 0 and standard deviation 1, so constant factors and offsets change nothing.
    If the optional attribute `variance` is false, the caller only subtracts the mean. If the optional attribute
    `samples` is true, each frame is one sample of the waveform, which feature augmentations and order=chunked refuse.
    """

    size: int
    """Number of features per frame (F)."""

    def frames(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the number of frames (B,) for lengths (B,) in samples. Audio too short for a frame has 0 frames."""

    def __call__(self, waveforms: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map waveforms (B, S) in -1..1 and lengths (B,) in samples to features (B, T, F) and frame counts (B,)."""


class AcousticModel(Protocol):
    """model: computes logits from features. It is also an nn.Module, and pretrain=layers requires a GrowingModel.

    Its constructor receives the keyword arguments features (F), outputs (V), rnn and norm, and those in its yaml file.
    The caller computes log-probabilities from the logits in float32. The optional attribute `unread` lists groups (rnn,
    norm) that the model ignores. A run that sets an option of an ignored group is refused.
    """

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Return the number of output frames (B,) for each number of feature frames (B,). Length 0 gives 0."""

    def __call__(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map normalised features (B, T, F) and lengths (B,) to logits (B, T', V) and lengths (B,) in output frames.
        If T is too short for one output frame, T' is 0.
        """


@runtime_checkable
class GrowingModel(Protocol):
    """A model whose recurrent layers can be added during training."""

    active_layers: int
    """Number of recurrent layers in use, counted from the input. The state_dict includes this number."""


@runtime_checkable
class MaskingModel(Protocol):
    """A model that masks frames itself in training, such as one that reads samples and makes frames of them."""

    masks_frames: bool
    """Whether its masks hide anything."""

    def mask_next_pass(self, ids: Sequence[str], seeds: Sequence[int], epoch: int) -> None:
        """Mask the next forward pass, whose batch holds one copy of the utterances `ids` for each of `seeds`. The masks
        depend only on (seed, epoch, utterance id).
        """


@runtime_checkable
class Recurrent(Protocol):
    """A recurrent layer that processes frames forwards in time. It is also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Compute outputs (B, T, H) from x (B, T, D) and lengths (B,) in frames. An output frame depends only on x up
        to the same frame, so padding at the end has no effect. The caller sets outputs past a length to 0.
        """


class RecurrentFactory(Protocol):
    """rnn: builds a recurrent layer."""

    def __call__(self, input_size: int, hidden_size: int, /) -> nn.Module:
        """Build a Recurrent layer with D = input_size and H = hidden_size. Its weights must be parameters of the layer
        itself or of torch's recurrent modules, whose gates the group `init` can separate.
        """


class Norm(Protocol):
    """A normalisation layer of a model. It is also an nn.Module."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Normalise x (B, T, …, D) with lengths (B,) in frames, without changing its shape or dtype. Statistics ignore
        padding, and a batch without valid frames leaves running statistics unchanged.
        """


class NormFactory(Protocol):
    """norm: builds a normalisation layer for frames of a given shape."""

    def __call__(self, frame: Sequence[int], /) -> nn.Module:
        """Build a Norm for frames of shape (F, C) (bins, channels) or (D,) (outputs of a recurrent layer)."""


class Initialisation(Protocol):
    """init: initialises the weights of a new model in place, using only torch's global random generator."""

    def __call__(self, model: nn.Module) -> None:
        """Initialise each gate of a recurrent layer as a separate matrix. Biases and vectors may stay unchanged."""


class Decoder(Protocol):
    """Decodes log-probabilities to transcripts. The blank has index 0, and length 0 gives "".

    Optional attributes:
    `searches`: whether decoding the output of an untrained model takes a long time;
    `tuned`: names of the attributes to tune on a validation set, which may be changed between calls;
    `files`: paths of the files that the decoder reads, by config key.
    """

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        """Return B transcripts for log_probs (B, T, V) in nats and lengths (B,). Single spaces separate their words."""


@runtime_checkable
class RescoringDecoder(Decoder, Protocol):
    """A decoder that also reads the activations used by the auxiliary loss. Only evaluations can use it."""

    def attach(self, model: nn.Module) -> None:
        """Copy the auxiliary loss of a trained model. Raise UsageError if the model has none or an unsuitable one."""

    def rescore(self, log_probs: torch.Tensor, activations: torch.Tensor) -> str:
        """Return an utterance's transcript, given log_probs (T, V) in nats and activations (T, D)."""


class Condition(Protocol):
    """condition: alters the audio on which a model is evaluated. Random numbers come only from `rng`.

    `rng` is seeded with `condition_seed` and the utterance's id, so every run and process gets the same altered audio.
    """

    changes: bool
    """Whether any sample changes. If not, test sets keep their names and the original audio's log-probabilities."""

    def __call__(self, samples: np.ndarray, id_: str, rng: np.random.Generator) -> np.ndarray:
        """Return the altered int16 samples (S,) of an utterance at 16 kHz. S may be 0."""


class DecoderFactory(Protocol):
    """decoder: builds a decoder for an alphabet."""

    def __call__(self, alphabet: Alphabet) -> Decoder:
        """Build a decoder. Raise UsageError if a value is out of range, or a file is missing, damaged or unsuitable."""


class OptimizerFactory(Protocol):
    """optimizer: builds a torch optimizer for named parameters. It does not receive the keys `rates` and
    `decay_norms_and_biases`, from which build_optimizer makes groups. Optional attribute of the class: `averaging`,
    which builds a WeightAveraging that evaluates weights which the optimizer averages.
    """

    def __call__(self, parameters: ParamsT, /) -> Optimizer:
        """Build an optimizer that ignores parameters without a gradient. Raise ValueError for values out of range.
        parameters: pairs (name, parameter), or groups with such pairs as `params`.
        """


class ScheduleFactory(Protocol):
    """schedule: builds a learning-rate schedule."""

    def __call__(self, optimizer: Optimizer, total_steps: int) -> LRScheduler:
        """Build a schedule that scales the learning rate for total_steps >= 1 steps and is constant afterwards. It is
        stepped after every optimizer step or, if it is a MonitoredSchedule, after every validation. Its state_dict must
        restore it completely. Raise ValueError for values out of range.
        """


@runtime_checkable
class MonitoredSchedule(Protocol):
    """A schedule that is stepped after each validation, using a result on the first validation set."""

    monitor: str
    """Name of the monitored result, one of metrics_files.FIGURES. Lower is better."""

    def step(self, figure: float | None = None) -> None:
        """Update the learning rate with the result of an epoch. torch makes a first call without a result."""


Log: TypeAlias = Callable[[str, float | torch.Tensor], None]
"""Function that logs a value of one step under a name. It does not wait for a tensor () that is on the device.

The value of an epoch is the mean over its steps. Values that are not finite are left out.
"""


class GradientTreatment(Protocol):
    """gradient: changes the gradients before an optimizer step, and the weights after it.

    The gradients are already unscaled, and averaged over ranks that train together. Every rank must change them in the
    same way. If the treatment is also an nn.Module, checkpoints contain its buffers.
    """

    def before_step(self, parameters: Sequence[nn.Parameter], *, step: int, seed: int, log: Log) -> None:
        """Change the gradients in place. A gradient may be None, or infinite in float16. step: number of the optimizer
        step, counted from 0. Random numbers must depend only on (seed, step).
        """

    def after_step(self, parameters: Sequence[nn.Parameter], log: Log) -> None:
        """Change the weights in place. The default does nothing."""
        return None


class Loss(Protocol):
    """loss: computes the training loss from log-probabilities.

    Optional attribute: `views`, the number of differently augmented copies (views) of each training batch. They are
    concatenated into one batch, whose attribute `views` is set to their number.
    """

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Prepare the loss, for example by aligning the data sets. Every rank calls this before the first step."""

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Return a batch's loss () in nats. log_probs: (B, T, V) in nats, float32. lengths: number of frames (B,).
        The loss and its gradients must be finite even for length 0 or an empty transcript.
        """

    def weight(self, batch: Batch) -> int:
        """Return a batch's weight in means: its number of utterances if the loss is a mean over utterances, else 1."""

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> Mapping[str, torch.Tensor]:
        """Return rates () in 0..1 over a batch's valid frames, by name, or none if the loss does not label frames."""


@runtime_checkable
class FrameLoss(Loss, Protocol):
    """A loss with a label for each frame. It uses `batch.frame_labels` if set, otherwise it computes the labels."""

    def labels(self, batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Return labels (B, frames) on the device of `batch.targets`. lengths: number of valid frames (B,)."""


@runtime_checkable
class CuttingOrder(Protocol):
    """A batch order that trains on chunks of utterances and requires a FrameLoss. Validation does not use chunks."""

    def chunks(self, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return each chunk's utterance index, first frame and length, all (N,). lengths: frames per utterance (B,)."""


class Penalty(Protocol):
    """penalty: computes a function of the weights that is added to the training loss but not to the validation loss."""

    def __call__(self, model: nn.Module) -> torch.Tensor:
        """Return the penalty () in nats as a differentiable float32 tensor."""


class Auxiliary(Protocol):
    """A loss on a layer's activations that training adds to the main loss. It is also an nn.Module.

    Its weights are trained and saved with the model's, but recognition uses them only if it has a `condition`. Padding
    must not change the loss.
    """

    name: str
    """Name of the loss in metrics.csv: inter_ctc is logged as train/inter_ctc."""
    layer: str
    """Name (as in model.txt) of the layer that supplies the activations (B, T', D), one row per output frame."""
    weight: float
    """Factor by which the auxiliary loss is multiplied. The main loss has factor 1.

    Optional: `condition`, a forward hook that changes the layer's output. The module is then part of recognition.
    """

    def __call__(self, activations: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Return the loss () in nats, float32, from activations (B, T', D) with lengths (B,) in output frames.
        The loss and its gradients must be finite even for length 0 or an empty transcript.
        """


class AuxiliaryFactory(Protocol):
    """auxiliary: builds an auxiliary loss for a new model. Its weights are trained together with the model's."""

    def __call__(self, model: nn.Module, features: int, outputs: int, /) -> nn.Module:
        """Build an Auxiliary for a model with F = features and V = outputs. Raise UsageError for an unknown layer."""


class ParallelTraining(pl.Callback, ABC):
    """trainer: defines how several ranks train one model. It is a callback and can therefore act between steps."""

    @abstractmethod
    def strategy(self, leaves_weights_out: bool) -> DDPStrategy:
        """Return Lightning's strategy for several ranks. leaves_weights_out: whether some weights get no gradient."""


class Pretraining(pl.Callback):
    """pretrain: a callback that chooses which part of the model to train, depending only on the epoch."""

    leaves_weights_out: bool
    """Whether some parameters get no gradient in some epochs."""


class Stopping(pl.Callback):
    """stopping: a callback that may end the training after an epoch. It uses only values that all ranks share."""


class Debugging(pl.Callback):
    """debug: a callback that shortens a run, to find mistakes quickly. The run's results are meaningless."""

    batches: int | None
    """Number of batches to use from each data set; None uses all."""
    folder: Path | None = None
    """The run folder, set before training. It is None in speed measurements."""


class WeightAveraging(pl.Callback):
    """averaging: a callback that averages the weights of several steps. Training itself does not use the average.

    Validation, the final evaluation and a checkpoint's state_dict use the average. A resumed run has the same average.
    """


class TrainingCallbacks(NamedTuple):
    """Callbacks chosen in a config, in the order in which they run: ranks agree on weights before averaging."""

    parallel: ParallelTraining
    pretrain: Pretraining | None
    averaging: WeightAveraging | None
    stopping: Stopping | None
    debug: Debugging | None
    own: tuple[pl.Callback, ...]


class LoggerFactory(Protocol):
    """logger: builds a run's Lightning logger, which may also have methods of LoggerOfTables and similar protocols."""

    def __call__(self, run: Run) -> Logger | None:
        """Build the logger, or return None. Only the first rank calls this, so it must not wait for other ranks."""


class Recording(NamedTuple):
    """Location of an utterance in an audio file: offset and duration in seconds, and channel (as in Utterance)."""

    path: str
    offset: float
    seconds: float
    channel: int


@runtime_checkable
class LoggerOfTables(Protocol):
    """A logger that shows tables. It receives example transcripts in training and in the final evaluation."""

    def log_table(
        self,
        key: str,
        columns: list[str],
        data: list[list[str]],
        *,
        step: int | None = None,
        recordings: Sequence[Recording] = (),
    ) -> None:
        """Log rows as the table `key`. step: optimizer step, None after training. recordings: each row's audio."""


@runtime_checkable
class LoggerWithSummary(Protocol):
    """A logger that stores values of a whole run, such as its model size, its duration and its place in a plan."""

    def log_summary(self, values: Mapping[str, float | str]) -> None:
        """Store values of the whole run, by name. A later call overwrites values of the same name."""


@runtime_checkable
class LoggerWithExitCode(Protocol):
    """A logger that must be closed with the exit code of the run."""

    def finish(self, exit_code: int) -> None:
        """Close the logger when everything is logged. exit_code: 0 if the run is done or was pruned, 1 if it failed."""


class PruningFactory(Protocol):
    """pruning: builds a callback that may end a run early by raising Pruned between epochs."""

    def __call__(self, folder: Path, key: str) -> pl.Callback:
        """Build the callback for a run folder. key: the column of metrics.csv to compare; lower is better."""


class UntilFactory(Protocol):
    """until: builds the plan by which a sweep decides whether to add runs. It must not import torch."""

    def __call__(self) -> object:
        """Build the plan. Raise UsageError for values out of range."""
