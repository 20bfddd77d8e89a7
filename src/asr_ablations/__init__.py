"""Ablations in automatic speech recognition that one can trust.

From Python: `open` reads the runs of a folder, and `compare` compares systems of any toolkit (docs/python.md). They are
imported when they are first used: `import asr_ablations` costs nothing, and changes nothing of other packages.

Letters in shapes: B utterances in a batch, S samples, T frames, D size of a frame going into a layer, F frequency
bins, H size of a frame coming out of a recurrent layer, V output symbols (blank is 0), L labels of a transcript.
Units: durations in seconds, rates in Hz, audio at 16 kHz, log-probabilities and losses in nats.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
SAMPLE_RATE = 16_000
"""Hz; everything past the audio reader is at this rate."""
LAZY = {
    "compare": "asr_verdicts.api",
    "open": "asr_ablations.report.notebook",
}
"""The module of each name that is imported when it is first used."""

__all__ = ["SAMPLE_RATE", "__version__", "compare", "open"]


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return getattr(import_module(LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *LAZY])
