"""Masks of the valid frames in a padded batch, and normalisation over these frames."""

import torch


def valid_frames(lengths: torch.Tensor, frames: int, device: torch.device) -> torch.Tensor:
    """Return a boolean mask (B, T) that is true for valid frames. This call does not wait for the GPU."""
    return torch.arange(frames, device=device) < lengths.to(device, non_blocking=True)[:, None]


def normalise_utterances(features: torch.Tensor, lengths: torch.Tensor, variance: bool = True) -> torch.Tensor:
    """Normalise each bin of features (B, T, F) to mean 0 over the valid frames of an utterance. Padding becomes 0.

    variance: whether to also normalise the standard deviation to 1.
    """
    mask = valid_frames(lengths, features.shape[1], features.device)[..., None]
    count = lengths.to(features.device, non_blocking=True).clamp(min=1)[:, None, None]
    mean = (features * mask).sum(dim=1, keepdim=True) / count
    centred = (features - mean) * mask
    if not variance:
        return centred
    deviation = (centred.square().sum(dim=1, keepdim=True) / count).sqrt()
    return centred / (deviation + 1e-5)
