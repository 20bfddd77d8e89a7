"""torch's recurrent layers as ONNX operators: torch.export would unroll them frame by frame, for one length only."""

from collections.abc import Sequence

import torch
from torch import nn

from asr_ablations.tools.errors import UsageError

GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}
"""Positions of ONNX's gates in torch's weights. LSTM: i o f c from i f g o; GRU: z r h from r z n."""

Attributes = dict[str, int | float | str | bool | Sequence[int] | Sequence[float] | Sequence[str] | Sequence[bool]]
"""Attributes of an ONNX operator, as torch.onnx.ops.symbolic takes them."""


class Recurrence(nn.Module):
    """One layer and direction with the weights of one of our recurrent layers: (x (B, T, D), lengths (B,)) → (B, T, H).

    For export only: called otherwise it returns zeros. Raises UsageError for a layer that does not keep its weights in
    a torch module `cell`, as all but min_gru and associative_lstm do. A layer that computes something else with them is
    detected when the numbers are compared.
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
        self.hidden_size = cell.hidden_size
        self.attributes = _attributes(layer, cell)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        y = torch.onnx.ops.symbolic(
            f"::{self.operator}",
            (x.transpose(0, 1), self.weight, self.recurrent, self.bias),
            attrs=self.attributes,
            dtype=x.dtype,
            shape=(x.shape[1], 1, x.shape[0], self.hidden_size),
        )
        return y.squeeze(1).transpose(0, 1)  # (T, 1, B, H) → (B, T, H)


def _in_order(weight: torch.Tensor, gates: tuple[int, ...]) -> torch.Tensor:
    return torch.cat([weight.chunk(len(gates))[gate] for gate in gates])


def _attributes(layer: nn.Module, cell: nn.RNNBase) -> Attributes:
    attributes: Attributes = {"hidden_size": cell.hidden_size}
    if cell.mode == "GRU":
        attributes["linear_before_reset"] = 1  # torch's variant, which is cuDNN's
    if cell.mode == "RNN_RELU":
        attributes["activations"] = ["Relu"]
    if (ceiling := getattr(layer, "ceiling", None)) is not None:
        attributes["clip"] = float(ceiling)  # clips the input of the activation, which is the same for a ReLU
    return attributes
