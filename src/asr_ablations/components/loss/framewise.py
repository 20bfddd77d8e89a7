"""Cross-entropy of frame labels, with the frame error rate: RETURNN's experiment (Doetsch2016 §6)."""

from collections.abc import Mapping

import torch

from asr_ablations.data.batch import Batch
from asr_ablations.data.dataset import Speech
from asr_ablations.tools.masks import valid_frames
from asr_verdicts.errors import choices


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
        """Return the weight of a batch in a mean over batches."""
        return 1 if self.name == "sum" else len(batch)


class Framewise:
    """(log_probs (B, T, V) in nats, lengths (B,), batch) → nats, as `reduction` says: frame, utterance or sum.

    The labels are a linear alignment, the flat start of hidden Markov models: the transcript's characters share the
    utterance's frames equally, with a blank between two equal neighbours. They need no trained model, and are wrong
    where speech is not even; RETURNN's came from a trained model, as those of loss=aligned do. A decoder for CTC also
    decodes this model, since it merges repeats and drops blanks.
    """

    def __init__(self, *, reduction: str) -> None:
        self.reduction = Reduction(reduction, "frame")

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        """Do nothing: the labels come from the transcripts of a batch."""

    def labels(self, batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Labels (B, T) on the targets' device, for lengths (B,) in frames and T = frames."""
        return linear_alignment(batch, lengths, frames)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        labels = self._frame_labels(log_probs, lengths, batch)
        nats = -log_probs.gather(2, labels[..., None])[..., 0]
        return self.reduction(_sum_over_frames(nats, lengths), lengths)

    def weight(self, batch: Batch) -> int:
        """Return the weight of a batch in a mean over batches."""
        return self.reduction.weight(batch)

    def frame_rates(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> dict[str, torch.Tensor]:
        """The frame error rate `fer`: the share of all frames of the batch whose best symbol is not the label."""
        labels = self._frame_labels(log_probs, lengths, batch)
        wrong = (log_probs.argmax(dim=-1) != labels) & valid_frames(lengths, labels.shape[1], labels.device)
        return {"fer": wrong.sum() / max(1, int(lengths.sum()))}

    def _frame_labels(self, log_probs: torch.Tensor, lengths: torch.Tensor, batch: Batch) -> torch.Tensor:
        return self.labels(batch, lengths, log_probs.shape[1]) if batch.frame_labels is None else batch.frame_labels


def linear_alignment(batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
    """Labels (B, T) on the targets' device: frame t of T has the symbol at the share t / T of the transcript.
    Does not wait for the device.
    """
    paths, path_lengths = separated(batch)
    device = paths.device
    lengths = lengths.to(device, non_blocking=True).clamp(min=1)[:, None]
    place = torch.arange(frames, device=device) * path_lengths[:, None] // lengths
    return paths.gather(1, place.minimum(path_lengths[:, None] - 1))


def separated(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Transcripts with a blank between two equal neighbours: symbols (B, P), padded with blanks, and lengths (B,).

    An empty transcript is one blank.
    """
    targets, device = batch.targets, batch.targets.device
    starts = batch.target_lengths.cumsum(0) - batch.target_lengths
    utterance = torch.repeat_interleave(torch.arange(len(batch)), batch.target_lengths)
    within = torch.arange(len(targets)) - starts[utterance]  # on the CPU, where the lengths are
    utterance, within = utterance.to(device, non_blocking=True), within.to(device, non_blocking=True)
    repeats = torch.zeros_like(targets)
    repeats[1:] = (targets[1:] == targets[:-1]) & (within[1:] > 0)
    blanks = torch.zeros(len(batch), dtype=torch.long, device=device).index_add(0, utterance, repeats)
    before = repeats.cumsum(0) - (blanks.cumsum(0) - blanks)[utterance]  # blanks of this utterance up to each symbol
    longest = 2 * int(batch.target_lengths.max()) if len(batch) else 0
    paths = torch.zeros(len(batch), max(1, longest), dtype=torch.long, device=device)
    paths[utterance, within + before] = targets
    return paths, (batch.target_lengths.to(device, non_blocking=True) + blanks).clamp(min=1)


def _sum_over_frames(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    valid = valid_frames(lengths, values.shape[1], values.device)
    return values.masked_fill(~valid, 0.0).sum(dim=1)
