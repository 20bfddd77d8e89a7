"""DeepSpeech2: convolutions, recurrent layers, fully connected ones (Amodei et al. 2016; Ambroszczyk2019 §1.2)."""

import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import nn

from asr_ablations.components.model.convolution import InputLayer, InputLayerFactory
from asr_ablations.components.model.directions import Directions
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.components.model.fully_connected import hidden_layers
from asr_ablations.components.model.lookahead import Lookahead
from asr_ablations.components.norm import NormFactory
from asr_ablations.components.rnn import RecurrentFactory
from asr_ablations.config.checks import MOST
from asr_ablations.tools.checks import number, whole

log = logging.getLogger(__name__)


class DeepSpeech2(nn.Module):
    """(features (B, T, F), lengths (B,) on the CPU) → (logits (B, T', V), lengths (B,) in output frames).

    convolution: builds an input layer; convolutions: channels, kernel and stride of each. Norm and dropout come before
    each recurrent layer but the first, whose input the last convolution has normalised, and before the output.
    lookahead: future frames that a row convolution shows to the output, 0 for none. fully_connected: layers after them,
    the output among them. Only the first `active_layers`
    recurrent layers take part: all, unless pretraining sets fewer.
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        convolution: InputLayerFactory,
        convolutions: Sequence[Mapping[str, object]],
        rnn: RecurrentFactory,
        norm: NormFactory,
        width: int,
        layers: int,
        directions: str,
        lookahead: int,
        fully_connected: int,
        dropout: float,
    ) -> None:
        super().__init__()
        whole("model.width", width, 1, MOST["width"])
        whole("model.layers", layers, 1, MOST["layers"])
        number("model.dropout", dropout, least=0, below=1)
        if lookahead and directions != "forward":
            log.warning("model.lookahead=%s: with model.directions=%s the layers see all of it", lookahead, directions)
        if not convolutions:
            log.warning("model.convolutions=[]: without any, the recurrent layers run over every frame of the features")
        self.convolutions = nn.ModuleList()
        channels, bins = 1, features
        for options in convolutions:
            input_layer = convolution(channels, bins, norm=norm, **options)
            assert isinstance(input_layer, nn.Module)
            self.convolutions.append(input_layer)
            channels, bins = input_layer.channels, input_layer.bins
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
        self.connected = nn.ModuleList(hidden_layers(fully_connected, size, width, norm=norm, dropout=dropout))
        self.output = nn.Linear(width if len(self.connected) else size, outputs)
        self.active_layers = layers

    def get_extra_state(self) -> torch.Tensor:
        """The number of active layers: a growing stack (pretrain=layers) is evaluated as high as it was trained."""
        return torch.tensor(self.active_layers)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Restore the number of active layers."""
        self.active_layers = int(state)

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Output frames (B,) for feature frames (B,)."""
        for layer in self.convolutions:
            lengths = cast(InputLayer, layer).output_lengths(lengths)
        return lengths

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if features.shape[1] < self.shortest:  # torch refuses to convolve what is shorter than a kernel
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
        for connected in self.connected:
            x = connected(x, lengths)
        return self.output(x), lengths
