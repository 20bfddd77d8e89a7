"""Features and model as one module of tensors that torch.export can trace."""

import copy

import torch
from torch import nn
from torch.nn.functional import pad

from asr_ablations.components.features.framing import PowerSpectrum
from asr_ablations.components.model.directions import Directions
from asr_ablations.onnx_export.recurrence import Recurrence
from asr_ablations.onnx_export.spectrum import ConvolvedSpectrum
from asr_ablations.tools.masks import normalise_utterances
from asr_ablations.training.task import CTCTask


class Graph(nn.Module):
    """(audio (B, S), lengths (B,) in samples) → (log_probs (B, T, V) in nats, lengths (B,) in frames).

    Audio is float in -1..1, or int16 if `int16` is true. Samples past a length are ignored. Zeros are appended to the
    audio, so that even one sample gives a frame: T is a few frames more than the longest of the lengths.
    """

    def __init__(self, task: CTCTask, int16: bool) -> None:
        super().__init__()
        self.features = copy.deepcopy(task.features).float().cpu()
        self.model = copy.deepcopy(task.model).float().cpu()
        self.scale = 1 / 32768 if int16 else 1.0
        self.padding = next(n for n in range(1, 1 << 20) if task.output_frames(torch.tensor([n])) > 0)
        replace(self.features, PowerSpectrum, ConvolvedSpectrum)
        for layer in self.model.modules():
            if isinstance(layer, Directions):
                layer.forwards = Recurrence(layer.forwards)
                layer.backwards = None if layer.backwards is None else Recurrence(layer.backwards)
        self.eval().requires_grad_(False)

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features, frames = self.features(pad(audio.float() * self.scale, (0, self.padding)), lengths)
        normalised = normalise_utterances(features, frames, getattr(self.features, "variance", True))
        logits, frames = self.model(normalised, frames)
        return logits.log_softmax(dim=-1), frames


def replace(module: nn.Module, kind: type[nn.Module], by: type[nn.Module]) -> None:
    """Replace every submodule of type `kind` by the module that `by` builds from it."""
    for name, child in list(module.named_children()):
        if isinstance(child, kind):
            setattr(module, name, by(child))
        else:
            replace(child, kind, by)
