"""CTC on an intermediate layer (Lee & Watanabe 2021)."""

import torch
from torch import nn

from asr_ablations.components.auxiliary.head import Head
from asr_ablations.components.loss.ctc import CTC
from asr_ablations.data.batch import Batch


class InterCTC(Head):
    """Computes the CTC loss of a linear layer on the output of `layer`, in nats per label, averaged over utterances.

    The linear layer's output is not fed back into the model. Self-conditioning (Nozaki & Komatsu 2021) would feed it
    back, but then recognition would also need the linear layer.
    """

    name = "inter_ctc"

    def __init__(self, model: nn.Module, features: int, outputs: int, *, layer: str, weight: float) -> None:
        super().__init__(model, features, layer=layer, weight=weight)
        self.output = nn.Linear(self.size, outputs)
        self.loss = CTC(reduction="label")

    def forward(self, activations: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        logits = self.output(activations)
        with torch.autocast(logits.device.type, enabled=False):
            return self.loss(logits.float().log_softmax(dim=-1), lengths, batch)
