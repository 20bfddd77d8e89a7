"""An attention decoder that is trained jointly with CTC (Watanabe et al. 2017)."""

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.components.auxiliary.head import Head, mean_per_label, padded_labels
from asr_ablations.components.model.attention import encode
from asr_ablations.data.batch import Batch
from asr_ablations.tools.checks import MOST_LAYERS, number, whole
from asr_ablations.tools.masks import valid_frames
from asr_verdicts.errors import choices


class AttentionDecoder(Head):
    """Computes the loss of a Transformer decoder that predicts each label from earlier labels and a layer's output.

    The loss is the cross-entropy in nats per label, averaged over utterances. The blank (index 0) marks the start and
    end of a transcript. The end is predicted, but not counted as a label. Positional encodings are sinusoidal (Vaswani
    et al. 2017), and feed-forward layers have four times as many units as `layer`.

    - layers, heads: number of decoder layers, and number of attention heads in each layer
    - smoothing: label smoothing, the share of each target that is spread evenly over all V outputs

    Raises UsageError for values out of range.
    """

    name = "attention"

    def __init__(
        self,
        model: nn.Module,
        features: int,
        outputs: int,
        *,
        layer: str,
        weight: float,
        layers: int,
        heads: int,
        smoothing: float,
        dropout: float,
    ) -> None:
        super().__init__(model, features, layer=layer, weight=weight)
        whole("auxiliary.layers", layers, 1, MOST_LAYERS)
        if self.size % whole("auxiliary.heads", heads, 1):
            raise choices("auxiliary.heads", heads, f"a divisor of {self.size}, the size of {layer}")
        self.smoothing = number("auxiliary.smoothing", smoothing, least=0, below=1)
        self.embed = nn.Embedding(outputs, self.size)
        self.norm = nn.LayerNorm(self.size)
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(self.size, heads, 4 * self.size, dropout, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.output = nn.Linear(self.size, outputs)

    def forward(self, activations: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        written = pad(padded_labels(batch), (0, 1))  # (B, L + 1), with a blank to mark the end
        logits = self._predict(activations, lengths, written)
        with torch.autocast(logits.device.type, enabled=False):
            nats = _sum_nats(logits, written, batch.target_lengths, self.smoothing)
            return mean_per_label(nats, batch)

    @torch.no_grad()
    def score(self, activations: torch.Tensor, transcripts: Sequence[Sequence[int]]) -> list[float]:
        """Return the log-probability in nats of each label sequence and its end, given activations (T', D), T' > 0."""
        sizes = torch.tensor([*map(len, transcripts)])
        written = pad_sequence([torch.tensor([*labels, 0]) for labels in transcripts], batch_first=True)
        rows = activations.expand(len(transcripts), -1, -1)
        logits = self._predict(rows, torch.full_like(sizes, len(activations)), written)
        return (-_sum_nats(logits, written, sizes, smoothing=0.0)).tolist()

    def _predict(self, activations: torch.Tensor, lengths: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
        """Return logits (B, L + 1, V) for `written` (B, L + 1), where each label is predicted from all earlier ones."""
        device = activations.device
        x = self.embed(pad(written[:, :-1], (1, 0)))
        x = x + encode(torch.arange(x.shape[1], device=device), self.size).to(x.dtype)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=device).triu(1)
        padding = ~valid_frames(lengths.clamp(min=1), activations.shape[1], device)  # zero frames would give 0 / 0
        activations = self.norm(activations)
        for layer in self.layers:
            x = layer(x, activations, tgt_mask=future, memory_key_padding_mask=padding)
        logits: torch.Tensor = self.output(x)
        return logits


def _sum_nats(logits: torch.Tensor, written: torch.Tensor, sizes: torch.Tensor, smoothing: float) -> torch.Tensor:
    """Sum the cross-entropy in nats over the first sizes + 1 labels of each row of `written` (B, L + 1)."""
    nats = cross_entropy(logits.float().transpose(1, 2), written, reduction="none", label_smoothing=smoothing)
    return nats.masked_fill(~valid_frames(sizes + 1, nats.shape[1], nats.device), 0.0).sum(dim=1)
