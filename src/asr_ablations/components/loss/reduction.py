"""From the losses of utterances to the number that is minimised: published losses differ in it, and say so rarely."""

import torch

from asr_ablations.data.batch import Batch
from asr_ablations.tools.errors import choices


class Reduction:
    """(nats (B,), units (B,)) → (). unit: what an utterance is made of, label or frame. name: the unit for nats per
    unit, the mean over utterances; utterance for nats, the mean over utterances; sum for nats of all utterances.

    CTC's nats grow with an utterance's length (Ambroszczyk2019 §2.6): only per unit do long ones weigh no more than
    short ones. A sum is not divided by the batch, so its gradients grow with it (Doetsch2016 §4.3); several ranks train
    on the mean of their sums. Raises UsageError for another name.
    """

    def __init__(self, name: str, unit: str) -> None:
        names = (unit, "utterance", "sum")
        if name not in names:
            raise choices("loss.reduction", name, names)
        self.name, self.unit = name, unit

    def __call__(self, nats: torch.Tensor, units: torch.Tensor) -> torch.Tensor:
        if self.name == "sum":
            return nats.sum()
        if self.name == self.unit:  # an empty utterance has one
            nats = nats / units.clamp(min=1).to(nats.device, non_blocking=True)
        return nats.mean()

    def weight(self, batch: Batch) -> int:
        """What a batch counts in a mean over batches."""
        return 1 if self.name == "sum" else len(batch)
