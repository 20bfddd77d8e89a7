"""Code, versions and hardware of the runs of a comparison: no part of their configs, and still able to matter."""

import hashlib
from collections.abc import Callable, Sequence

from asr_ablations.comparison.arm import Arm
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.files import Json


def circumstance_warnings(arms: Sequence[Arm]) -> list[str]:
    """A warning for every circumstance that is not the same in all runs, or that changed within a run, which was
    interrupted and continued elsewhere.
    """
    warnings = []
    for name, read, meaning in _CIRCUMSTANCES:
        runs_by_value: dict[str, list[str]] = {}
        for arm in arms:
            for run in arm.runs:
                value = ", then ".join(dict.fromkeys(map(read, _environments(run))))
                runs_by_value.setdefault(value, []).append(f"{arm.name}/{run.seed}")
        if len(runs_by_value) > 1 or any(", then " in value for value in runs_by_value):
            values = "; ".join(f"{value}: {', '.join(runs)}" for value, runs in runs_by_value.items())
            warnings.append(f"the runs are of different {name}, {meaning} ({values})")
    return warnings


def _environments(run: RunRecord) -> list[Json]:
    """The environment in which a run began, and those in which it continued after an interruption."""
    return [run.environment, *run.environment.get("resumed", [])]


def _code(environment: Json) -> str:
    code = environment.get("code", {})
    diff = code.get("dirty_diff", "")
    changes = f" with changes {hashlib.sha256(diff.encode()).hexdigest()[:6]}" if diff else ""
    return f"{code.get('commit', 'unknown')[:8]}{changes}"


def _versions(environment: Json) -> str:
    versions = environment.get("versions", {})
    return f"torch {versions.get('torch', 'unknown')}, Python {versions.get('python', 'unknown')}"


def _hardware(environment: Json) -> str:
    hardware = environment.get("hardware", {})
    if gpus := hardware.get("gpus", []):
        return f"{len(gpus)} × {gpus[0]}"
    return f"{hardware.get('processor', 'unknown')}, {hardware.get('cores', '?')} cores"


_CIRCUMSTANCES: tuple[tuple[str, Callable[[Json], str], str], ...] = (
    ("code", _code, "which may change results"),
    ("versions", _versions, "which may change results"),
    ("hardware", _hardware, "so their times cannot be compared"),
)
"""Name, how an environment says it, and what a difference means."""
