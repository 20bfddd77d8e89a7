"""The networks built from this project's own recurrent layers, as in its models."""

from collections.abc import Callable

import torch
from torch import nn

from asr_ablations.components.model.directions import Directions
from asr_benchmarks.lstm.configuration import Configuration
from asr_benchmarks.lstm.torch_training import TorchTraining


class Project(TorchTraining):
    """A Training. layer: an option of conf/rnn. On a CPU with several threads each direction runs in its own thread."""

    def __init__(
        self, layer: Callable[[int, int], nn.Module], *, configuration: Configuration, seed: int, device: str
    ) -> None:
        kinds = ("forwards", "backwards")[: configuration.directions]
        names = [[f"layers.{n}.{kind}.cell.{{}}_l0" for kind in kinds] for n in range(configuration.layers)]
        super().__init__(_Layers(layer, configuration), names, configuration=configuration, seed=seed, device=device)


class _Layers(nn.Module):
    def __init__(self, layer: Callable[[int, int], nn.Module], configuration: Configuration) -> None:
        super().__init__()
        directions = "concat" if configuration.bidirectional else "forward"
        sizes, units = configuration.input_sizes, configuration.units
        self.layers = nn.ModuleList(Directions(layer, size, units, directions=directions) for size in sizes)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, lengths)
        return x
