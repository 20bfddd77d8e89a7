"""Decoders of CTC outputs. Contract: DecoderFactory, which makes a Decoder."""

from asr_ablations.training.contracts import Decoder, DecoderFactory

__all__ = ["Decoder", "DecoderFactory"]
