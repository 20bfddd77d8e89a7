"""torch's recurrent layers as operators of ONNX: torch.export would write one out frame by frame, of one length."""

from typing import Any

import torch
from torch import nn

from asr_ablations.tools.errors import UsageError

GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}
"""Where ONNX's gates stand in torch's weights. LSTM: i o f c out of i f g o; GRU: z r h out of r z n."""


class Recurrence(nn.Module):
    """One layer, one direction, with the weights of a recurrent layer of ours: (x (B, T, D), lengths (B,)) → (B, T, H).

    Only for export: called otherwise it gives zeros. Raises UsageError for a layer that does not keep its weights in a
    torch module `cell`, as all but min_gru do. One that computes something else with them is found when the numbers are
    compared.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        cell = getattr(layer, "cell", None)
        if not isinstance(cell, nn.RNNBase):
            raise UsageError(f"rnn {type(layer).__name__}: ONNX has no such layer; expected lstm, gru, rnn or rnn_relu")
        (weights,) = cell.all_weights
        inputs, recurrent, input_bias, recurrent_bias = (_in_order(w.detach(), GATES[cell.mode]) for w in weights)
        self.weight = nn.Parameter(inputs[None])  # (1 direction, gates · H, D)
        self.recurrent = nn.Parameter(recurrent[None])
        self.bias = nn.Parameter(torch.cat([input_bias, recurrent_bias])[None])
        self.operator = cell.mode.split("_")[0]
        self.attributes = _attributes(layer, cell)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        size = self.attributes["hidden_size"]
        y = torch.onnx.ops.symbolic(
            f"::{self.operator}",
            (x.transpose(0, 1), self.weight, self.recurrent, self.bias),
            attrs=self.attributes,
            dtype=x.dtype,
            shape=(x.shape[1], 1, x.shape[0], size),
        )
        return y.squeeze(1).transpose(0, 1)  # (T, 1, B, H) → (B, T, H)


def _in_order(weight: torch.Tensor, gates: tuple[int, ...]) -> torch.Tensor:
    return torch.cat([weight.chunk(len(gates))[gate] for gate in gates])


def _attributes(layer: nn.Module, cell: nn.RNNBase) -> dict[str, Any]:
    told: dict[str, Any] = {"hidden_size": cell.hidden_size}
    if cell.mode == "GRU":
        told["linear_before_reset"] = 1  # torch's, which is cuDNN's
    if cell.mode == "RNN_RELU":
        told["activations"] = ["Relu"]
    if (ceiling := getattr(layer, "ceiling", None)) is not None:
        told["clip"] = float(ceiling)  # of what enters the activation: the same, since that is a ReLU
    return told
