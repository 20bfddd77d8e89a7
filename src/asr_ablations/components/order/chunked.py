"""Utterances in random order, cut into overlapping chunks of constant length (Doetsch2016 §4)."""

import numpy as np
import torch

from asr_ablations.components.order.shuffled import shuffled
from asr_ablations.data.batch import BatchSize
from asr_ablations.tools.checks import is_whole
from asr_verdicts.errors import UsageError


class Chunked:
    """Forms batches like order=shuffled, and cuts the utterances into chunks of `length` feature frames.

    Neighbouring chunks share `overlap` frames, which count twice in the loss. The last chunk of an utterance may be
    shorter. Features are normalised over the whole utterance before cutting, and recurrent states are reset for each
    chunk. The loss must have a label for each frame. Raises UsageError unless 0 ≤ overlap < length.
    """

    def __init__(self, *, length: int, overlap: int) -> None:
        if not (is_whole(length, 1) and is_whole(overlap, 0) and overlap < length):
            raise UsageError(
                f"order.length={length}, order.overlap={overlap}: expected whole numbers of frames, a length of "
                "1 or more and an overlap that is less than the length"
            )
        self.length, self.overlap = length, overlap

    def __call__(
        self, durations: np.ndarray, batch_size: BatchSize, epoch: int, generator: np.random.Generator
    ) -> list[np.ndarray]:
        return shuffled(durations, batch_size, epoch, generator)

    def chunks(self, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the utterance index, first frame and length (N,) of each chunk, for lengths (B,) in frames on the CPU.

        No chunk lies entirely within the previous one. An utterance without frames becomes one empty chunk.
        """
        step = self.length - self.overlap
        counts = 1 + (lengths - self.length).clamp(min=0).add(step - 1).div(step, rounding_mode="floor")
        utterance = torch.repeat_interleave(torch.arange(len(lengths)), counts)
        starts = step * (torch.arange(len(utterance)) - (counts.cumsum(0) - counts)[utterance])
        return utterance, starts, (lengths[utterance] - starts).clamp(max=self.length)
