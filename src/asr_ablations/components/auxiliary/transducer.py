"""A transducer (Graves 2012) that is trained jointly with CTC, using torchaudio's loss."""

import torch
from torch import nn
from torch.nn.functional import pad
from torchaudio.functional import rnnt_loss

from asr_ablations.components.auxiliary.head import Head, mean_per_label, padded_labels
from asr_ablations.data.batch import Batch
from asr_ablations.tools.checks import MOST_WIDTH, whole


class Transducer(Head):
    """Computes the transducer loss in nats per label, averaged over utterances.

    The predictor is an embedding of the previous label, or of the blank at the start (Ghodsi et al. 2020). The joint
    network has `size` tanh units for each pair of a frame and a label, so its memory use is proportional to the number
    of frames times the number of labels. Raises UsageError for values out of range.
    """

    name = "transducer"

    def __init__(self, model: nn.Module, features: int, outputs: int, *, layer: str, weight: float, size: int) -> None:
        super().__init__(model, features, layer=layer, weight=weight)
        units = whole("auxiliary.size", size, 1, MOST_WIDTH)
        self.frame = nn.Linear(self.size, units)
        self.predict = nn.Embedding(outputs, units)
        self.output = nn.Linear(units, outputs)

    def forward(self, activations: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        labels, device = padded_labels(batch), activations.device
        frames = lengths.clamp(min=1)  # torchaudio reads the last frame even of empty utterances
        x = self.frame(activations[:, : int(frames.max())])
        logits = self.output((x[:, :, None] + self.predict(pad(labels, (1, 0)))[:, None]).tanh())  # (B, T', L + 1, V)
        sizes = (length.to(device, torch.int32, non_blocking=True) for length in (frames, batch.target_lengths))
        with torch.autocast(device.type, enabled=False):
            nats = rnnt_loss(logits.float(), labels.int(), *sizes, blank=0, clamp=-1, reduction="none")
            return mean_per_label(nats * (lengths > 0).to(device, non_blocking=True), batch)
