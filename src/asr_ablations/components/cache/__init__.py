"""Recordings kept on disk or in memory. Contract: Cache."""

from asr_ablations.data.store import Cache

__all__ = ["Cache"]
