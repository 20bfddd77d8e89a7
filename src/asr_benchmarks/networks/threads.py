"""What threads and GPUs gain: the findings of Shi2016 §4 and §5, from seconds per mini-batch."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

BEYOND = "beyond cores / cores"

GainRow = TypedDict(
    "GainRow",
    {
        "network": str,
        "framework": str,
        "machine": str,
        "cores": int,
        "1 to 2 threads": float | None,
        "beyond cores / cores": float | None,
        "CPU / GPU": float | None,
    },
)
"""Ratios of seconds; None where one of the two was not measured."""


def row(
    network: str, framework: str, machine: str, cores: int, seconds: Mapping[int, float], gpu: float | None
) -> GainRow:
    """Speed-up from one to two threads; seconds with more threads than cores (the smallest such number) over those with
    as many threads as cores; and how many times faster the GPU is than as many threads as cores.

    seconds: by number of threads of the CPU; gpu: seconds on the GPU.
    """
    full = seconds.get(cores)
    beyond = min((count for count in seconds if count > cores), default=None)
    return {
        "network": network,
        "framework": framework,
        "machine": machine,
        "cores": cores,
        "1 to 2 threads": _ratio(seconds.get(1), seconds.get(2)),
        "beyond cores / cores": _ratio(None if beyond is None else seconds[beyond], full),
        "CPU / GPU": _ratio(full, gpu),
    }


def finding(rows: Sequence[GainRow]) -> str | None:
    """How often more threads than cores were slower than as many threads as cores; None if that was not measured."""
    ratios = [ratio for row in rows if (ratio := row["beyond cores / cores"]) is not None]
    return f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}" if ratios else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None
