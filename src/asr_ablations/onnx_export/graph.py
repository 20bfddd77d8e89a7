"""Features and model as one module of tensors that torch.export can follow."""

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

    Audio in -1..1, or int16 where `whole` is true. What lies past a length does not matter. Zeros are put after the
    audio, so that there is a frame even of one sample: T is a few frames more than the longest of the lengths.
    """

    def __init__(self, task: CTCTask, whole: bool) -> None:
        super().__init__()
        self.features = copy.deepcopy(task.features).float().cpu()
        self.model = copy.deepcopy(task.model).float().cpu()
        self.scale = 1 / 32768 if whole else 1.0
        self.least = next(n for n in range(1, 1 << 20) if task.output_frames(torch.tensor([n])) > 0)
        replace(self.features, PowerSpectrum, ConvolvedSpectrum)
        for layer in self.model.modules():
            if isinstance(layer, Directions):
                layer.forwards = Recurrence(layer.forwards)
                layer.backwards = None if layer.backwards is None else Recurrence(layer.backwards)
        self.eval().requires_grad_(False)

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features, frames = self.features(pad(audio.float() * self.scale, (0, self.least)), lengths)
        logits, frames = self.model(normalise_utterances(features, frames), frames)
        return logits.log_softmax(dim=-1), frames


def replace(module: nn.Module, kind: type[nn.Module], by: type[nn.Module]) -> None:
    """Every submodule of a kind by another that is made of it."""
    for name, child in list(module.named_children()):
        if isinstance(child, kind):
            setattr(module, name, by(child))
        else:
            replace(child, kind, by)
