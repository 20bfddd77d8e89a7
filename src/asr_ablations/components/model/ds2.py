"""DeepSpeech2: convolutions, recurrent layers, a fully connected one (Amodei et al. 2016; papers/003 chapter 1)."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from asr_ablations.components.model.convolution import Norm
from asr_ablations.components.model.directions import Directions, Layer
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.components.model.lookahead import Lookahead


class DeepSpeech2(nn.Module):
    """(features (B, T, D), lengths (B,) on the CPU) → (logits (B, T', V), lengths (B,) in output frames).

    convolution: the kind of all; convolutions: a mapping each with channels, kernel and stride. Norm and dropout stand
    before each recurrent layer but the first, whose input the last convolution has normalised, and before the output.
    lookahead: future frames that a row convolution shows the output, 0 for none. Only the first `active_layers`
    recurrent layers are gone through: all, unless pretraining says otherwise.
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        convolution: Callable[..., nn.Module],
        convolutions: Sequence[dict[str, Any]],
        rnn: Layer,
        norm: Norm,
        width: int,
        layers: int,
        directions: str,
        lookahead: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList()
        channels, bins = 1, features
        for options in convolutions:
            made: Any = convolution(channels, bins, norm=norm, **options)
            self.convolutions.append(made)
            channels, bins = made.channels, made.bins
        counts = itertools.count(1)
        self.shortest = next(n for n in counts if self.output_lengths(torch.tensor(n, device="cpu")) > 0)
        self.recurrent, size = nn.ModuleList(), channels * bins
        for _ in range(layers):
            layer = Directions(rnn, size, width, directions=directions)
            self.recurrent.append(layer)
            size = layer.size
        self.norms = nn.ModuleList(norm([size]) for _ in range(layers))
        self.dropouts = nn.ModuleList(Dropout(dropout) for _ in range(layers + 1))
        self.lookahead = Lookahead(size, lookahead) if lookahead else None
        self.output = nn.Linear(size, outputs)
        self.active_layers = layers

    def get_extra_state(self) -> torch.Tensor:
        # a stack that grows (pretrain=layers) is evaluated as high as it was trained
        return torch.tensor(self.active_layers)

    def set_extra_state(self, state: torch.Tensor) -> None:
        self.active_layers = int(state)

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Output frames (B,) for feature frames (B,)."""
        for convolution in self.convolutions:
            lengths = convolution.output_lengths(lengths)  # type: ignore[operator]
        return lengths

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if features.shape[1] < self.shortest:  # torch convolves nothing shorter than a kernel
            return features.new_zeros(len(features), 0, self.output.out_features), self.output_lengths(lengths)
        x = features[..., None]
        for convolution in self.convolutions:
            x, lengths = convolution(x, lengths)
        x = self.dropouts[0](x.transpose(2, 3).flatten(2))  # (B, T', C·F')
        layers = list(zip(self.recurrent, self.norms, self.dropouts[1:], strict=True))
        for recurrent, norm, dropout in layers[: self.active_layers]:
            x = dropout(norm(recurrent(x, lengths), lengths))
        if self.lookahead is not None:
            x = self.lookahead(x, lengths)
        return self.output(x), lengths
