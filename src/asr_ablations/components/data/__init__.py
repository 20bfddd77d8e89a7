"""Corpora. Contract: Corpus."""

from asr_ablations.data.corpus import Corpus

__all__ = ["Corpus"]
