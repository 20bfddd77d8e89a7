"""The networks in PyTorch from a layer of one direction, as in components/rnn: one direction after the other."""

from collections.abc import Callable

import torch
from torch import nn

from asr_ablations.components.model.directions import reversal
from asr_benchmarks.lstm.configuration import Configuration
from asr_benchmarks.lstm.torch_training import TorchTraining


class TorchCells(TorchTraining):
    """A Training. layer: maps (D, H) to a module (x (B, T, D), lengths (B,)) → (B, T, H), whose weights are those of an
    nn.LSTM named `cell`.
    """

    def __init__(
        self, layer: Callable[[int, int], nn.Module], *, configuration: Configuration, seed: int, device: str
    ) -> None:
        layers = Layers(layer, configuration)
        kinds = ("forwards", "backwards")[: configuration.directions]
        names = [[f"{kind}.{n}.cell.{{}}_l0" for kind in kinds] for n in range(configuration.layers)]
        super().__init__(layers, names, configuration=configuration, seed=seed, device=device)


class Layers(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, H · directions). The backward direction reverses each utterance within its
    own length.
    """

    def __init__(self, layer: Callable[[int, int], nn.Module], configuration: Configuration) -> None:
        super().__init__()
        sizes, units = configuration.input_sizes, configuration.units
        self.forwards = nn.ModuleList(layer(size, units) for size in sizes)
        self.backwards = nn.ModuleList(layer(size, units) for size in sizes if configuration.bidirectional)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        flip = reversal(lengths, x.shape[1], x.device)[..., None] if len(self.backwards) else None
        for n, forwards in enumerate(self.forwards):
            y = forwards(x, lengths)
            if flip is not None:
                z = self.backwards[n](x.gather(1, flip.expand_as(x)), lengths)
                y = torch.cat([y, z.gather(1, flip.expand_as(z))], dim=-1)
            x = y
        return x
