"""What a comparison found: made by sweep.comparison, shown by report."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asr_ablations.runs.record import RunRecord

ALPHA = 0.05
"""The rate of false alarms that verdicts are held to, over all arms and sets of a comparison."""


@dataclass(frozen=True)
class Arm:
    """One choice of the factor, run with one or more seeds."""

    name: str
    runs: list[RunRecord]


@dataclass(frozen=True)
class Difference:
    """An arm against the baseline on one test set. Rates and differences of rates are fractions, not percent.

    low, high: 95 % interval by bootstrap over speakers; p_pairs: matched pairs (MAPSSWE), p_pairs_holm: after Holm's
    correction over arms; p_seeds: Welch over seeds, None with fewer than two seeds an arm; detectable: the smallest
    difference that this many seeds could have shown, None likewise.

    The verdict's own: p over seeds and speakers together, p_holm after Holm's correction over all verdicts, half_width
    of its 95 % interval; None with fewer than two seeds an arm. p_pooled: what p_holm would be were all arms equally
    noisy, a sensitivity analysis. seeds: of the arm and of the baseline. What needs utterances (low, high, p_pairs) is
    not a number where a record has none.
    """

    arm: str
    set: str
    metric: str
    baseline_mean: float
    arm_mean: float
    difference: float
    low: float
    high: float
    p_pairs: float
    p_pairs_holm: float
    p_seeds: float | None
    detectable: float | None
    verdict: str
    p: float | None = None
    p_holm: float | None = None
    half_width: float | None = None
    seeds: tuple[int, int] = (1, 1)
    p_pooled: float | None = None


@dataclass(frozen=True)
class Reached:
    """Time to accuracy of one run: what it took until `metric` on the validation set reached `target`; None: never.

    cost: in the currency of hardware.price_per_hour; None without a price.
    """

    arm: str
    seed: int
    metric: str
    target: float
    seconds: float | None
    steps: float | None
    audio_hours: float | None
    epochs: float | None
    cost: float | None = None


@dataclass(frozen=True)
class Comparison:
    """All that a report shows. rows: the table, one an arm and test set, with plain values.

    equal: validation rates at equal steps, audio, time (arm, axis, budget, mean, deviation, n); scaling: throughput by
    number of GPUs; metric: of the verdicts and of the time to accuracy; allowed: keys that --allow overruled.
    """

    title: str
    question: str | None
    source: str | None
    factor: list[str]
    baseline: str
    arms: list[Arm]
    sets: list[str]
    rows: list[dict[str, Any]]
    differences: list[Difference]
    reached: list[Reached]
    verdicts: list[str]
    literature: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unfinished: list[tuple[Path, str]] = field(default_factory=list)
    differing: dict[str, list[Any]] = field(default_factory=dict)
    metric: str = "wer"
    equal: list[dict[str, Any]] = field(default_factory=list)
    scaling: list[dict[str, Any]] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
