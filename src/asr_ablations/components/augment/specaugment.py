"""SpecAugment: replaces random frequency bands and time spans by the mean (Park et al. 2019)."""

import numpy as np
import torch

from asr_ablations.components.augment.none import NoAugmentation
from asr_ablations.tools.checks import number, whole
from asr_ablations.tools.masks import valid_frames
from asr_ablations.tools.random_streams import uniforms

MOST_MASKS, MOST_WIDE = 1000, 10**6
"""Maximum number of masks and maximum mask width. Larger values would mask everything and take a long time."""


class SpecAugment(NoAugmentation):
    """Sets random frequency bands and time spans of normalised features (B, T, F) to 0, which is the mean of each bin.

    Each utterance gets `frequency_masks` bands of up to `frequency_width` bins and `time_masks` spans. A span has up to
    `time_width` frames, but at most the share `time_share` of the utterance. The masks depend only on seed, epoch and
    utterance id. Raises UsageError for values out of range, and if `frequency_width` exceeds the number of bins.
    """

    key = "augment"
    """Key of the config that holds the values, for error messages."""

    def __init__(
        self, *, frequency_masks: int, frequency_width: int, time_masks: int, time_width: int, time_share: float
    ) -> None:
        counts = (("frequency_masks", frequency_masks), ("frequency_width", frequency_width))
        for name, value in (*counts, ("time_masks", time_masks), ("time_width", time_width)):
            whole(f"{self.key}.{name}", value, 0, MOST_MASKS if name.endswith("masks") else MOST_WIDE)
        number(f"{self.key}.time_share", time_share, least=0, most=1)
        self.frequency_masks, self.frequency_width = frequency_masks, frequency_width
        self.time_masks, self.time_width, self.time_share = time_masks, time_width, time_share

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        masks = self.frequency_masks + self.time_masks
        draws = np.stack([uniforms(2 * masks, seed, "specaugment", epoch, id_) for id_ in ids])
        draws = draws.reshape(len(ids), masks, 2)
        frames, bins = features.shape[1:]
        whole(f"{self.key}.frequency_width", self.frequency_width, 0, bins)
        split = self.frequency_masks
        limits = np.floor(np.minimum(self.time_width, self.time_share * lengths.numpy()))[:, None]
        across = _draw_spans(draws[:, :split], np.full((1, 1), self.frequency_width), np.full((1, 1), bins))
        along = _draw_spans(draws[:, split:], limits, lengths.numpy()[:, None])
        device = features.device
        masked = _is_covered(along, frames, device)[:, :, None] | _is_covered(across, bins, device)[:, None]
        return features * (~masked & valid_frames(lengths, frames, device)[..., None])


def _draw_spans(draws: np.ndarray, widest: np.ndarray, size: np.ndarray) -> torch.Tensor:
    """Convert uniform random numbers (B, masks, 2) to spans (begin, end) of up to `widest` positions within `size`."""
    width = np.floor(draws[..., 0] * (widest + 1))
    begin = np.floor(draws[..., 1] * (size - width + 1))
    return torch.from_numpy(np.stack([begin, begin + width], axis=-1)).float()


def _is_covered(spans: torch.Tensor, size: int, device: torch.device) -> torch.Tensor:
    """Return a mask (B, size) of the positions that lie inside any of the spans (B, masks, 2)."""
    position = torch.arange(size, device=device)
    begin, end = spans.to(device, non_blocking=True)[..., None].unbind(2)
    return ((position >= begin) & (position < end)).any(dim=1)
