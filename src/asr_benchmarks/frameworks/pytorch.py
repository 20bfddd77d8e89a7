"""The networks in PyTorch, with several implementations of their LSTM layers."""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, ctc_loss, linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from asr_ablations.components.model.directions import Directions, reversal_indices
from asr_ablations.tools.machine import device_clock
from asr_ablations.training.precision import set_tf32
from asr_benchmarks.frameworks import network as kinds
from asr_benchmarks.frameworks.network import Network, draw_samples, draw_weights
from asr_benchmarks.worker import Step

CellLayer = Callable[[int, int], nn.Module]
"""Builds a layer from its sizes (D, H), as in conf/rnn: (x (B, T, D), lengths (B,)) → (B, T, H)."""


class TorchTrainer:
    """A Trainer in PyTorch. recurrent: function of (sizes, whether lengths vary) that builds the LSTM layers."""

    def __init__(
        self,
        network: Network,
        recurrent: "Callable[[kinds.LSTM, bool], Recurrent]",
        *,
        batch: int,
        seed: int,
        device: str,
        threads: int | None,
        tf32: bool,
    ) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        set_tf32(tf32)
        self.network, self.device = network, torch.device("cuda" if device == "gpu" else "cpu")
        self.model = Sequence(network.layers, lambda sizes: recurrent(sizes, network.variable))
        load_weights(self.model, draw_weights(network, seed))
        self.model.to(self.device).train()
        parameters = list_trained(self.model)
        adam = network.optimizer == "adam"
        self.optimizer = torch.optim.Adam(parameters) if adam else torch.optim.SGD(parameters, kinds.LEARNING_RATE)
        inputs, self.lengths, targets = map(torch.from_numpy, draw_samples(network, batch, seed))
        if network.kind == "CNN":
            inputs = inputs.permute(0, 3, 1, 2).contiguous()  # channels before height and width
        self.batch = (inputs, targets.long())
        if not network.copied:
            self.batch = self._copy()

    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in list_trained(self.model))

    def outputs(self, count: int | None = None) -> np.ndarray:
        # gradients stay enabled as in a step, because torch.compile would otherwise recompile
        outputs: torch.Tensor = self.model(self._copy()[0][:count], self.lengths[:count])
        return outputs.detach().cpu().numpy()

    def step(self) -> Step:
        started = device_clock(self.device)
        inputs, targets = self._copy()
        loss = self._loss(self.model(inputs, self.lengths), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return Step(device_clock(self.device) - started, loss.item())

    def device_memory(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None

    def versions(self) -> dict[str, str]:
        return {"torch": torch.__version__}

    def _copy(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy inputs and targets to the device. Lengths stay on the CPU, because packing and CTC need them there."""
        inputs, targets = self.batch
        return inputs.to(self.device), targets.to(self.device)

    def _loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if self.network.loss == "ce":
            return cross_entropy(outputs.flatten(0, -2), targets.flatten())
        counts = torch.full((len(targets),), targets.shape[1])
        return ctc_loss(outputs.log_softmax(dim=-1).transpose(0, 1), targets, self.lengths, counts, blank=0)


class Recurrent(nn.Module):
    """A stack of LSTM layers: (x (B, T, D), lengths (B,)) → (B, T, H · directions). sizes: description of the stack."""

    def __init__(self, sizes: kinds.LSTM) -> None:
        super().__init__()
        self.sizes = sizes


class Packed(Recurrent):
    """nn.LSTM over a PackedSequence. The utterances in a batch are already sorted, longest first."""

    def __init__(self, sizes: kinds.LSTM, variable: bool) -> None:
        super().__init__(sizes)
        two = sizes.directions == 2
        self.lstm = nn.LSTM(sizes.inputs, sizes.hidden, sizes.layers, batch_first=True, bidirectional=two)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]


class Padded(Packed):
    """nn.LSTM over padded tensors. Raises ValueError if a backward direction would start in the padding."""

    def __init__(self, sizes: kinds.LSTM, variable: bool) -> None:
        if sizes.directions == 2 and variable:
            raise ValueError("nn.LSTM's backward direction would start in the padding; use torch_packed instead")
        super().__init__(sizes, variable)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


class Cells(Recurrent):
    """A stack with one module per layer and direction, each of which has its weights in an nn.LSTM named `cell`."""

    def __init__(self, sizes: kinds.LSTM, variable: bool, *, layer: CellLayer) -> None:
        super().__init__(sizes)
        self.parts = nn.ModuleList(layer(sizes.input_sizes[n], sizes.hidden) for n, *_ in sizes.places())

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        flip = reversal_indices(lengths, x.shape[1], x.device)[..., None] if self.sizes.directions == 2 else None
        outputs: list[torch.Tensor] = []
        for part, (_, side, _) in zip(self.parts, self.sizes.places(), strict=True):
            if side and flip is not None:
                y = part(x.gather(1, flip.expand_as(x)), lengths)
                outputs.append(y.gather(1, flip.expand_as(y)))
            else:
                outputs.append(part(x, lengths))
            if len(outputs) == self.sizes.directions:
                x, outputs = torch.cat(outputs, dim=-1) if flip is not None else outputs[0], []
        return x


class ProjectLayers(Recurrent):
    """This project's recurrent layers. On a CPU with several threads, each direction runs in its own thread."""

    def __init__(self, sizes: kinds.LSTM, variable: bool, *, layer: CellLayer) -> None:
        super().__init__(sizes)
        kind = "concat" if sizes.directions == 2 else "forward"
        self.layers = nn.ModuleList(Directions(layer, n, sizes.hidden, directions=kind) for n in sizes.input_sizes)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, lengths)
        return x


class LSTMCompiled(nn.Module):
    """An LSTM whose step for one frame is compiled. Compiling the whole loop would take longer than training.

    All layers and directions share the compiled step, because their input products are computed before the loop.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.cell = nn.LSTM(input_size, hidden_size, batch_first=True)  # only stores the weights

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        ((inputs, recurrent, input_bias, recurrent_bias),) = self.cell.all_weights
        entering = linear(x.transpose(0, 1), inputs, input_bias + recurrent_bias)  # (T, B, gates · H)
        hidden = memory = x.new_zeros(len(x), self.cell.hidden_size)
        step, outputs = _compile_step(), []
        for frame in entering.unbind(0):
            hidden, memory = step(frame, hidden, memory, recurrent)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)


@cache
def _compile_step() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    return torch.compile(_step, dynamic=False)


def _step(
    entering: torch.Tensor, hidden: torch.Tensor, memory: torch.Tensor, recurrent: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    enter, forget, candidate, leave = torch.addmm(entering, hidden, recurrent.T).chunk(4, dim=1)
    memory = forget.sigmoid() * memory + enter.sigmoid() * candidate.tanh()
    return leave.sigmoid() * memory.tanh(), memory


def list_trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def load_weights(module: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Copy weights from draw_weights into a module."""
    with torch.no_grad():
        for path, value in weights.items():
            place, _, name = path.rpartition(".")
            target, order = _find_target(module.get_submodule(place), name)
            target.copy_(torch.from_numpy(value).permute(order))


def _find_target(module: nn.Module, name: str) -> tuple[torch.Tensor, tuple[int, ...]]:
    """Return the parameter for a weight name of draw_weights, and the axis permutation for its value."""
    if isinstance(module, Recurrent):
        parameters = [value for key, value in module.named_parameters() if "bias_hh" not in key]
        parameter = parameters[list(module.sizes.weights()).index(name)]
        return parameter, (0,) if parameter.ndim == 1 else (1, 0)
    parameter = module.get_parameter("bias" if name in ("bias", "shift") else "weight")
    swapped = {nn.Linear: (1, 0), nn.Conv2d: (3, 2, 0, 1)}.get(type(module), tuple(range(parameter.ndim)))
    return parameter, (0,) if parameter.ndim == 1 else swapped


MakeRecurrent = Callable[[kinds.LSTM], Recurrent]


class Sequence(nn.Sequential):
    """A sequence of layers: (inputs, lengths) → outputs. Only recurrent layers use the lengths."""

    def __init__(self, layers: tuple[kinds.Layer, ...], recurrent: MakeRecurrent | None = None) -> None:
        super().__init__(*(_build_module(layer, recurrent) for layer in layers))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        for part in self:
            x = part(x, lengths) if isinstance(part, Recurrent) else part(x)
        return x


def _build_module(layer: kinds.Layer, recurrent: MakeRecurrent | None) -> nn.Module:
    match layer:
        case kinds.Dense(inputs, outputs):
            return nn.Linear(inputs, outputs)
        case kinds.Convolution(inputs, outputs, size, stride, padding, bias):
            return nn.Conv2d(inputs, outputs, size, stride, padding, bias=bias)
        case kinds.BatchNorm(channels):
            return nn.BatchNorm2d(channels)
        case kinds.Activation(kind):
            return nn.ReLU(inplace=True) if kind == "relu" else nn.Sigmoid()
        case kinds.MaxPool(size, stride, padding):
            return nn.MaxPool2d(size, stride, padding)
        case kinds.Reshape("mean"):
            return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        case kinds.Reshape(kind):
            return _Reshape(kind)
        case kinds.Embedding(words, width):
            return nn.Embedding(words, width)
        case kinds.LSTM():
            assert recurrent is not None
            return _hold_second_bias(recurrent(layer))
        case kinds.Residual():
            return _Residual(layer)
    raise TypeError(layer)


def _hold_second_bias(module: Recurrent) -> Recurrent:
    """Fix torch's second LSTM bias at 0. Other frameworks have one bias, and two biases would learn twice as fast."""
    for name, parameter in module.named_parameters():
        if "bias_hh" in name:
            nn.init.zeros_(parameter.requires_grad_(False))
    return module


class _Reshape(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # channels come last, as in the other frameworks
        return x[:, -1] if self.kind == "last" else x.permute(0, 2, 3, 1).flatten(1)


class _Residual(nn.Module):
    def __init__(self, residual: kinds.Residual) -> None:
        super().__init__()
        self.branch, self.shortcut = Sequence(residual.branch), Sequence(residual.shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.branch(x) + self.shortcut(x)
