"""Train on chunks of utterances: features and frame labels are cut alike."""

from dataclasses import replace

import torch

from asr_ablations.data.batch import Batch
from asr_ablations.tools.masks import valid_frames
from asr_ablations.training.contracts import CuttingOrder, FrameLoss, Loss
from asr_verdicts.errors import UsageError


class Chunks:
    """A batch of B utterances as N chunks. features (N, C, F); lengths (N,) in frames, on the CPU."""

    def __init__(
        self, order: CuttingOrder, loss: Loss, batch: Batch, features: torch.Tensor, lengths: torch.Tensor
    ) -> None:
        assert isinstance(loss, FrameLoss)
        self.utterance, starts, self.lengths = order.chunks(lengths)
        device, longest = features.device, int(self.lengths.max())
        rows = self.utterance.to(device, non_blocking=True)[:, None]
        frames = (starts[:, None] + torch.arange(longest)).clamp(max=max(0, features.shape[1] - 1))
        frames = frames.to(device, non_blocking=True)
        self.features = features[rows, frames] * valid_frames(self.lengths, longest, device)[..., None]
        self._labels = loss.labels(batch, lengths, features.shape[1])[rows, frames]
        self._batch = batch

    def labelled(self, lengths: torch.Tensor, frames: int) -> Batch:
        """Return the chunks as a batch for the loss, with frame labels (N, frames). lengths: output frames (N,), CPU.

        An output frame takes the label of the feature frame at the same relative position in the chunk.
        """
        place = torch.arange(frames) * self.lengths[:, None] // lengths.clamp(min=1)[:, None]
        place = place.minimum(self.lengths.clamp(min=1)[:, None] - 1).to(self._labels.device, non_blocking=True)
        ids, texts = (
            [values[row] for row in self.utterance.tolist()] for values in (self._batch.ids, self._batch.texts)
        )
        return replace(self._batch, ids=ids, texts=texts, frame_labels=self._labels.gather(1, place))


def find_cutting_order(order: object, loss: Loss) -> CuttingOrder | None:
    """Return the order if it cuts utterances, else None. Raise UsageError if the loss lacks frame labels."""
    if not isinstance(order, CuttingOrder):
        return None
    if not isinstance(loss, FrameLoss):
        raise UsageError(
            "order=chunked: CTC cannot train on chunks, because its labels belong to a whole utterance and not to "
            "frames: expected a loss with a label for each frame (loss=framewise, loss=aligned), or order=bucketed, "
            "shuffled, sortagrad or sorted"
        )
    return order
