"""The networks as one nn.LSTM over a PackedSequence, for lengths that differ (Braun2018 §3.3)."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from asr_benchmarks.lstm.configuration import Configuration
from asr_benchmarks.lstm.torch_lstm import lstm, lstm_names
from asr_benchmarks.lstm.torch_training import TorchTraining


class TorchPacked(TorchTraining):
    """A Training. Its utterances come longest first, so that nothing has to be sorted."""

    def __init__(self, *, configuration: Configuration, seed: int, device: str) -> None:
        layers = Packed(lstm(configuration))
        names = lstm_names(configuration)
        super().__init__(layers, names, configuration=configuration, seed=seed, device=device)


class Packed(nn.Module):
    """(x (B, T, D), lengths (B,)) → (B, T, H · directions)."""

    def __init__(self, layers: nn.LSTM) -> None:
        super().__init__()
        self.lstm = layers

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]
