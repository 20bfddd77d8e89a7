"""DeepSpeech2: convolutional, recurrent and fully connected layers (Amodei et al. 2016; Ambroszczyk2019 §1.2)."""

import logging
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn.functional import pad

from asr_ablations.components.model.convolution import CEILING, InputLayerFactory, InputLayers
from asr_ablations.components.model.directions import Directions
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.tools.checks import MOST_LAYERS, MOST_WIDTH, whole
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.contracts import NormFactory, RecurrentFactory

log = logging.getLogger(__name__)

MOST_AHEAD = 1000
"""Maximum number of lookahead frames, which last 20 seconds at 20 ms per output frame."""


class FullyConnected(nn.Module):
    """Maps x (B, T, D) and lengths (B,) to (B, T, H) by a linear layer, norm, clipped ReLU and dropout."""

    def __init__(self, inputs: int, outputs: int, *, norm: NormFactory, dropout: float) -> None:
        super().__init__()
        self.product = nn.Linear(inputs, outputs)
        self.norm = norm([outputs])
        self.dropout = Dropout(dropout)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.norm(self.product(x), lengths).clamp(0.0, CEILING))


class Lookahead(nn.Module):
    """A row convolution over each frame and the next `frames` frames: r_t = Σ w_j ∘ x_(t+j), j from 0 to `frames`.

    The layer maps x (B, T, D) and lengths (B,) to (B, T, D). Each unit has its own weights, and padding counts as 0.
    """

    def __init__(self, size: int, frames: int) -> None:
        super().__init__()
        whole("model.lookahead", frames, 1, MOST_AHEAD, also="0 for none")
        self.frames = frames
        self.convolve = nn.Conv1d(size, size, frames + 1, groups=size, bias=False)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        valid = valid_frames(lengths, x.shape[1], x.device)[..., None]
        ahead = pad((x * valid).transpose(1, 2), (0, self.frames))  # (B, D, T + frames)
        return self.convolve(ahead).transpose(1, 2) * valid


class DeepSpeech2(nn.Module):
    """A DeepSpeech2 model that maps features (B, T, F) and lengths (B,) to logits (B, T', V) and their lengths (B,).

    - convolution: factory that builds one input layer
    - convolutions: channels, kernel and stride of each input layer
    - lookahead: number of future frames in a row convolution after the recurrent layers; 0 for no row convolution
    - fully_connected: number of fully connected layers at the end, including the output layer

    Each recurrent layer is followed by norm and dropout, and the last convolution by dropout. Only the first
    `active_layers` recurrent layers are used: all of them, unless pretraining sets a smaller number.
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
        whole("width", width, 1, MOST_WIDTH)
        whole("layers", layers, 1, MOST_LAYERS)
        if lookahead and directions != "forward":
            log.warning("model.lookahead=%s is useless: model.directions=%s sees all frames", lookahead, directions)
        if not convolutions:
            log.warning("model.convolutions=[]: the recurrent layers process every frame, which is slow")
        self.convolutions = InputLayers(convolution, convolutions, features, norm)
        self.recurrent, size = nn.ModuleList(), self.convolutions.size
        for _ in range(layers):
            layer = Directions(rnn, size, width, directions=directions)
            self.recurrent.append(layer)
            size = layer.size
        self.norms = nn.ModuleList(norm([size]) for _ in range(layers))
        self.dropouts = nn.ModuleList(Dropout(dropout) for _ in range(layers + 1))
        self.lookahead = Lookahead(size, lookahead) if lookahead != 0 else None
        self.connected = nn.ModuleList()
        for _ in range(whole("model.fully_connected", fully_connected, 1, MOST_LAYERS) - 1):
            self.connected.append(FullyConnected(size, width, norm=norm, dropout=dropout))
            size = width
        self.output = nn.Linear(size, outputs)
        self.active_layers = layers

    def get_extra_state(self) -> torch.Tensor:
        """Return the number of recurrent layers in use. Checkpoints store it, because pretrain=layers changes it."""
        return torch.tensor(self.active_layers)

    def set_extra_state(self, state: torch.Tensor) -> None:
        self.active_layers = int(state)

    def output_lengths(self, lengths: torch.Tensor) -> torch.Tensor:
        """Convert numbers of feature frames (B,) to numbers of output frames (B,)."""
        return self.convolutions.output_lengths(lengths)

    def forward(self, features: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if features.shape[1] < self.convolutions.shortest:
            return features.new_zeros(len(features), 0, self.output.out_features), self.output_lengths(lengths)
        x, lengths = self.convolutions.convolve(features, lengths)
        x = self.dropouts[0](x)
        layers = list(zip(self.recurrent, self.norms, self.dropouts[1:], strict=True))
        for recurrent, norm, dropout in layers[: self.active_layers]:
            x = dropout(norm(recurrent(x, lengths), lengths))
        if self.lookahead is not None:
            x = self.lookahead(x, lengths)
        for connected in self.connected:
            x = connected(x, lengths)
        return self.output(x), lengths
