"""The networks as one nn.LSTM over a padded batch: on a GPU cuDNNLSTM of Braun2018 table 2, on a CPU torch's loop."""

import torch
from torch import nn

from asr_benchmarks.lstm.configuration import Configuration
from asr_benchmarks.lstm.torch_training import TorchTraining


class TorchLSTM(TorchTraining):
    """A Training. Raises ValueError for two directions with several lengths: the backward one would start in the
    padding.
    """

    def __init__(self, *, configuration: Configuration, seed: int, device: str) -> None:
        if configuration.bidirectional and configuration.variable:
            raise ValueError("nn.LSTM would read backwards from the padding; torch_packed is the same with lengths")
        layers = Padded(lstm(configuration))
        names = lstm_names(configuration)
        super().__init__(layers, names, configuration=configuration, seed=seed, device=device)


class Padded(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, H · directions)."""

    def __init__(self, layers: nn.LSTM) -> None:
        super().__init__()
        self.lstm = layers

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


def lstm(configuration: Configuration) -> nn.LSTM:
    """All layers and directions of a configuration in one module."""
    return nn.LSTM(
        configuration.features,
        configuration.units,
        configuration.layers,
        batch_first=True,
        bidirectional=configuration.bidirectional,
    )


def lstm_names(configuration: Configuration) -> list[list[str]]:
    """Names of the weights in a module whose `lstm` this is, by layer and direction, with {} for weight_ih etc."""
    ends = ("", "_reverse")[: configuration.directions]
    return [[f"lstm.{{}}_l{layer}{end}" for end in ends] for layer in range(configuration.layers)]
