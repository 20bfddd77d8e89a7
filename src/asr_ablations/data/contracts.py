"""The contracts of alphabets and augmentations; those of corpora, caches and orders stand beside their classes."""

from typing import Protocol, runtime_checkable

import numpy as np
import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus


@runtime_checkable
class AlphabetFactory(Protocol):
    """alphabet: from a corpus to the alphabet of its transcripts."""

    def __call__(self, corpus: Corpus) -> Alphabet:
        """May read the training text; a fixed alphabet leaves the corpus alone, which need not be prepared then."""


@runtime_checkable
class Augmentation(Protocol):
    """augment: another version of each training utterance in every epoch; never called in validation or test.

    What is drawn depends on (seed, epoch, utterance id) only: batch mates, workers and ranks change nothing.
    """

    changes_waveforms: bool
    """Whether `waveform` does anything: it excludes a cache of features."""

    def waveform(self, samples: np.ndarray, id_: str, seed: int, epoch: int) -> np.ndarray:
        """int16 samples (S,) at 16 kHz → int16 (S',), in the process that reads, one utterance alone. S may be 0."""

    def __call__(
        self, features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int
    ) -> torch.Tensor:
        """Normalised features (B, T, F) → the same shape, on the model's device; lengths (B,) in frames on the CPU.
        Frames past a length do not matter.
        """
