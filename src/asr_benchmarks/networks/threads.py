"""What threads and GPUs gain: the findings of Shi et al. 2016, sections 4 and 5, from seconds a mini-batch."""

from collections.abc import Mapping, Sequence
from typing import Any

BEYOND = "beyond cores / cores"


def row(
    network: str, framework: str, machine: str, cores: int, seconds: Mapping[int, float], gpu: float | None
) -> dict[str, Any]:
    """Speed-up from one to two threads; seconds with more threads than cores over those with as many, the smallest
    such number of threads; and how often the GPU is faster than as many threads as cores. None where not measured.
    """
    full = seconds.get(cores)
    beyond = min((count for count in seconds if count > cores), default=None)
    return {
        **{"network": network, "framework": framework, "machine": machine, "cores": cores},
        "1 to 2 threads": _ratio(seconds.get(1), seconds.get(2)),
        BEYOND: _ratio(None if beyond is None else seconds[beyond], full),
        "CPU / GPU": _ratio(full, gpu),
    }


def finding(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """How often more threads than cores were slower than as many as cores."""
    known = [row[BEYOND] for row in rows if row[BEYOND] is not None]
    return f"{sum(value > 1 for value in known)} of {len(known)}" if known else None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above and below else None
