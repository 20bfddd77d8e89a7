"""Augmentations of the training audio or its features. Contract: Augmentation."""

from asr_ablations.data.contracts import Augmentation

__all__ = ["Augmentation"]
