"""Features and model as one module that torch.export can trace."""

import copy
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import conv1d, pad

from asr_ablations.components.features.framing import PowerSpectrum
from asr_ablations.components.model.directions import Directions
from asr_ablations.tools.masks import normalise_utterances
from asr_ablations.training.task import CTCTask
from asr_verdicts.errors import UsageError


class ConvolvedSpectrum(nn.Module):
    """Waveforms (B, S) → power spectrum (B, T, F), numerically equal to PowerSpectrum.

    The windowed cosines and sines are the kernels of a convolution whose stride is the hop. They are computed in
    float64 and also subtract the mean.
    """

    kernels: torch.Tensor

    def __init__(self, spectrum: PowerSpectrum) -> None:
        super().__init__()
        self.hop, self.frames = spectrum.hop, spectrum.frames
        size, window = spectrum.window_size, spectrum.window.double().cpu()
        impulses = torch.eye(size, dtype=torch.float64)
        centred = impulses - 1 / size  # for each sample, a frame minus its mean
        previous = torch.cat([centred[:, :1], centred[:, :-1]], dim=1)  # the first sample precedes itself
        emphasised = centred - spectrum.preemphasis * previous
        transformed = torch.fft.rfft(emphasised * window, n=spectrum.fft_size)  # (size, F)
        kernels = torch.cat([transformed.real, transformed.imag], dim=1).T
        self.register_buffer("kernels", kernels[:, None].float())

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        parts = conv1d(waveforms[:, None], self.kernels, stride=self.hop)
        real, imaginary = parts.chunk(2, dim=1)
        return (real.square() + imaginary.square()).transpose(1, 2)


GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}
"""Positions of ONNX's gates in torch's weights. LSTM: i o f c from i f g o; GRU: z r h from r z n."""

Attributes = dict[str, int | float | str | bool | Sequence[int] | Sequence[float] | Sequence[str] | Sequence[bool]]
"""Attributes of an ONNX operator in the form of torch.onnx.ops.symbolic."""


class Recurrence(nn.Module):
    """One direction of one of our recurrent layers: (x (B, T, D), lengths (B,)) → (B, T, H).

    For export only; direct calls return zeros. Raises UsageError unless the layer keeps its weights in a torch module
    `cell`, as all except min_gru and associative_lstm do. A layer with other computations is detected when the outputs
    are compared.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        cell = getattr(layer, "cell", None)
        if not isinstance(cell, nn.RNNBase):
            raise UsageError(f"rnn {type(layer).__name__}: ONNX has no such layer; expected lstm, gru, rnn or rnn_relu")
        (weights,) = cell.all_weights
        gates = GATES[cell.mode]
        inputs, recurrent, input_bias, recurrent_bias = (
            torch.cat([weight.detach().chunk(len(gates))[gate] for gate in gates]) for weight in weights
        )
        self.weight = nn.Parameter(inputs[None])  # (1 direction, gates · H, D)
        self.recurrent = nn.Parameter(recurrent[None])
        self.bias = nn.Parameter(torch.cat([input_bias, recurrent_bias])[None])
        self.operator = cell.mode.split("_")[0]
        self.hidden_size = cell.hidden_size
        self.attributes: Attributes = {"hidden_size": cell.hidden_size}
        if cell.mode == "GRU":
            self.attributes["linear_before_reset"] = 1  # as in torch and cuDNN
        if cell.mode == "RNN_RELU":
            self.attributes["activations"] = ["Relu"]
        if (ceiling := getattr(layer, "ceiling", None)) is not None:
            self.attributes["clip"] = float(ceiling)  # clips the activation's input, which is equivalent for a ReLU

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        y = torch.onnx.ops.symbolic(
            f"::{self.operator}",
            (x.transpose(0, 1), self.weight, self.recurrent, self.bias),
            attrs=self.attributes,
            dtype=x.dtype,
            shape=(x.shape[1], 1, x.shape[0], self.hidden_size),
        )
        return y.squeeze(1).transpose(0, 1)  # (T, 1, B, H) → (B, T, H)


class Graph(nn.Module):
    """(audio (B, S), lengths (B,) in samples) → (log_probs (B, T, V) in nats, lengths (B,) in frames).

    Audio is float in -1..1, or int16 if `int16` is true. Samples beyond a length are ignored. Zeros are appended, so
    that even one sample gives a frame; therefore T exceeds the longest length by a few frames.
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
