"""The layers of this project's models with their own types, which nn.Module and nn.ModuleList do not keep."""

from typing import TypeAlias, cast

from asr_ablations.components.model.convolution import PaddedConvolution, WholeFrameConvolution
from asr_ablations.components.model.directions import Directions
from asr_ablations.components.model.ds2 import DeepSpeech2
from asr_ablations.training.task import CTCTask

Convolution: TypeAlias = PaddedConvolution | WholeFrameConvolution


def model_of(task: CTCTask) -> DeepSpeech2:
    """The model of a task; every option of conf/model is a DeepSpeech2."""
    return cast(DeepSpeech2, task.model)


def convolutions(model: DeepSpeech2) -> list[Convolution]:
    """The convolutional layers of a model, from the input on."""
    return cast(list[Convolution], list(model.convolutions))


def recurrent_layers(model: DeepSpeech2) -> list[Directions]:
    """The recurrent layers of a model, from the input on."""
    return cast(list[Directions], list(model.recurrent))
