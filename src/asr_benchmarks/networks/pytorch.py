"""The networks in PyTorch."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from asr_ablations.tools.machine import device_clock
from asr_ablations.training.precision import set_tf32
from asr_benchmarks.networks import layers as kinds
from asr_benchmarks.networks.network import LEARNING_RATE, Network, samples, values


@dataclass(frozen=True)
class PyTorch:
    """The framework PyTorch."""

    packages: list[str]

    def environment(self, device: str, threads: int | None) -> dict[str, str]:
        return {}

    def trainer(
        self, network: Network, *, batch: int, device: str, threads: int | None, tf32: bool, seed: int
    ) -> "PyTorchTrainer":
        if threads is not None:
            torch.set_num_threads(threads)
        set_tf32(tf32)
        return PyTorchTrainer(network, batch, torch.device("cuda" if device == "gpu" else "cpu"), seed)


class PyTorchTrainer:
    def __init__(self, network: Network, batch: int, device: torch.device, seed: int) -> None:
        self.device = device
        self.model = model(network)
        load(self.model, values(network, seed))
        self.model.to(device).train()
        self.optimizer = torch.optim.SGD(trained(self.model), lr=LEARNING_RATE)
        inputs, classes = samples(network, batch, seed)
        if network.kind == "CNN":
            inputs = np.ascontiguousarray(inputs.transpose(0, 3, 1, 2))  # channels before height and width
        self.inputs = torch.from_numpy(inputs).to(device)
        self.classes = torch.from_numpy(classes).long().to(device)

    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in trained(self.model))

    def outputs(self) -> np.ndarray:
        with torch.no_grad():
            outputs: torch.Tensor = self.model(self.inputs[:2])
            return outputs.cpu().numpy()

    def losses(self, steps: int) -> list[float]:
        return [float(self._train()) for _ in range(steps)]

    def step(self) -> float:
        started = device_clock(self.device)
        self._train()
        return device_clock(self.device) - started

    def device_memory(self) -> int | None:
        return torch.cuda.max_memory_allocated() if self.device.type == "cuda" else None

    def _train(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = cross_entropy(self.model(self.inputs), self.classes)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def cross_entropy(outputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over the samples, for words over all positions."""
    return F.cross_entropy(outputs.flatten(0, -2), classes.flatten())


def model(network: Network) -> nn.Module:
    """The network as a module."""
    return _sequence(network.layers)


def trained(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def load(module: nn.Module, weights: dict[str, np.ndarray]) -> None:
    """Copy weights by path, as of network.values, into the module."""
    with torch.no_grad():
        for path, value in weights.items():
            place, _, name = path.rpartition(".")
            target, order = _target(module.get_submodule(place), name)
            target.copy_(torch.from_numpy(value).permute(order))


def _target(module: nn.Module, name: str) -> tuple[torch.Tensor, tuple[int, ...]]:
    """The parameter of a name, and the order of its axes in the value of that name."""
    if isinstance(module, _Recurrent):
        kinds = {"kernel": "weight_ih", "recurrent": "weight_hh", "bias": "bias_ih"}
        parameter = module.layers.get_parameter(f"{kinds[name[:-1]]}_l{name[-1]}")
        return parameter, (0,) if parameter.ndim == 1 else (1, 0)
    parameter = module.get_parameter("bias" if name in ("bias", "shift") else "weight")
    swapped = {nn.Linear: (1, 0), nn.Conv2d: (3, 2, 0, 1)}.get(type(module), tuple(range(parameter.ndim)))
    return parameter, (0,) if parameter.ndim == 1 else swapped


def _sequence(layers: tuple[kinds.Layer, ...]) -> nn.Sequential:
    return nn.Sequential(*map(_module, layers))


def _module(layer: kinds.Layer) -> nn.Module:
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
        case kinds.MeanPool():
            return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        case kinds.Flatten():
            return _Flatten()
        case kinds.Embedding(words, width):
            return nn.Embedding(words, width)
        case kinds.LSTM(inputs, hidden, count):
            return _Recurrent(inputs, hidden, count)
        case kinds.Residual(branch, shortcut):
            return _Residual(branch, shortcut)
    raise TypeError(layer)


class _Flatten(nn.Module):
    """Flattens in the order of the other frameworks: channels last."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 3, 1).flatten(1)


class _Recurrent(nn.Module):
    def __init__(self, inputs: int, hidden: int, count: int) -> None:
        super().__init__()
        self.layers = nn.LSTM(inputs, hidden, count, batch_first=True)
        for n in range(count):  # cuDNN needs a second bias; other frameworks have one, so it stays 0
            getattr(self.layers, f"bias_hh_l{n}").requires_grad_(False).zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)[0]


class _Residual(nn.Module):
    def __init__(self, branch: tuple[kinds.Layer, ...], shortcut: tuple[kinds.Layer, ...]) -> None:
        super().__init__()
        self.branch, self.shortcut = _sequence(branch), _sequence(shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.branch(x) + self.shortcut(x)
