"""Augmentations of the training audio or its features. Contract: Augmentation."""

from asr_ablations.data.batch import Augmentation

__all__ = ["Augmentation"]
