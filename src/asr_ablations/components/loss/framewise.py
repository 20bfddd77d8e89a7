"""Cross-entropy with frame labels, and the frame error rate, as in RETURNN's experiment (Doetsch2016 §6)."""

from collections.abc import Mapping

import torch

from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import Speech
from asr_ablations.tools.masks import valid_frames
from asr_verdicts.errors import choices


class Reduction:
    """Reduces the losses of utterances, in nats (B,), to a scalar. Raises UsageError for an unknown name.

    - unit: label or frame
    - name: the value of `unit` (nats per unit, averaged over utterances), utterance (mean over utterances) or sum

    An utterance's loss grows with its length (Ambroszczyk2019 §2.6), so long and short utterances have the same weight
    only if the loss is divided by the number of units. With `sum`, the gradient grows with the batch size (Doetsch2016
    §4.3), and several ranks train on the mean of their sums.
    """

    def __init__(self, name: str, unit: str) -> None:
        names = (unit, "utterance", "sum")
        if name not in names:
            raise choices("loss.reduction", name, names)
        self.name, self.unit = name, unit

    def __call__(self, nats: torch.Tensor, units: torch.Tensor) -> torch.Tensor:
        if self.name == "sum":
            return nats.sum()
        if self.name == self.unit:  # an empty utterance counts as one unit
            nats = nats / units.clamp(min=1).to(nats.device, non_blocking=True)
        return nats.mean()

    def weight(self, batch: Batch) -> int:
        return 1 if self.name == "sum" else len(batch)


class Framewise:
    """Computes the loss in nats of a batch from log_probs (B, T, V) in nats and lengths (B,) in frames.

    reduction: frame, utterance or sum; see Reduction. The frame labels are a linear alignment, as in the flat start of
    hidden Markov models: a transcript's labels share the frames equally, with a blank between equal neighbours. A
    linear alignment needs no trained model, but is inaccurate if the speech rate varies. RETURNN used labels from a
    trained model, as loss=aligned does. CTC decoders suit this loss, because they merge repeats and drop blanks.
    """

    def __init__(self, *, reduction: str) -> None:
        self.reduction = Reduction(reduction, "frame")

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Do nothing, because the labels are computed from the transcripts in each batch."""

    def labels(self, batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Spread each transcript evenly over its frames, without waiting for the device.

        lengths: number of frames (B,) of each utterance. Returns labels (B, T = frames) on the targets' device.
        """
        paths, path_lengths = insert_blanks(batch)
        device = paths.device
        lengths = lengths.to(device, non_blocking=True).clamp(min=1)[:, None]
        place = torch.arange(frames, device=device) * path_lengths[:, None] // lengths
        return paths.gather(1, place.minimum(path_lengths[:, None] - 1))

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        labels = self._frame_labels(log_probs, lengths, batch)
        nats = -log_probs.gather(2, labels[..., None])[..., 0]
        valid = valid_frames(lengths, nats.shape[1], nats.device)
        return self.reduction(nats.masked_fill(~valid, 0.0).sum(dim=1), lengths)

    def weight(self, batch: Batch) -> int:
        return self.reduction.weight(batch)

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> dict[str, torch.Tensor]:
        """Return the frame error rate `fer`, the share of frames whose best symbol is not the label."""
        labels = self._frame_labels(log_probs, lengths, batch)
        wrong = (log_probs.argmax(dim=-1) != labels) & valid_frames(lengths, labels.shape[1], labels.device)
        return {"fer": wrong.sum() / max(1, int(lengths.sum()))}

    def _frame_labels(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        return self.labels(batch, lengths, log_probs.shape[1]) if batch.frame_labels is None else batch.frame_labels


def insert_blanks(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Insert a blank between equal neighbours in each transcript. An empty transcript becomes one blank.

    Returns symbols (B, P), padded with blanks, and their lengths (B,).
    """
    targets, device = batch.targets, batch.targets.device
    starts = batch.target_lengths.cumsum(0) - batch.target_lengths
    utterance = torch.repeat_interleave(torch.arange(len(batch)), batch.target_lengths)
    within = torch.arange(len(targets)) - starts[utterance]  # on the CPU, where the lengths are
    utterance, within = utterance.to(device, non_blocking=True), within.to(device, non_blocking=True)
    repeats = torch.zeros_like(targets)
    repeats[1:] = (targets[1:] == targets[:-1]) & (within[1:] > 0)
    blanks = torch.zeros(len(batch), dtype=torch.long, device=device).index_add(0, utterance, repeats)
    before = repeats.cumsum(0) - (blanks.cumsum(0) - blanks)[utterance]  # blanks before each symbol in its utterance
    longest = 2 * int(batch.target_lengths.max()) if len(batch) else 0
    paths = torch.zeros(len(batch), max(1, longest), dtype=torch.long, device=device)
    paths[utterance, within + before] = targets
    return paths, (batch.target_lengths.to(device, non_blocking=True) + blanks).clamp(min=1)
