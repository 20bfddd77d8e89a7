"""The row of a contrast in comparison.json, and the section on one arm over seeds."""

import math
from collections.abc import Callable
from typing import Any

from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.one_arm import Description, descriptions
from asr_verdicts.report.section import Section, tabulate
from asr_verdicts.scales import MOST_LOG
from asr_verdicts.verdict import Verdict

# columns of a contrast, each with the path of its value in a Verdict if that has another name
COLUMNS = (
    "arm", "baseline", "kind=question.kind", "set", "metric", "primary",
    "baseline_mean=baseline_rate", "arm_mean=rate", "difference", "low", "high", "level",
    "relative=relative.value", "relative_low=relative.low", "relative_high=relative.high",
    "scale=scale.name", "margin", "grade", "superiority", "outcome", "verdict=sentence",
    "procedure=procedure.name", "p", "p_adjusted", "family", "seeds", "failed", "diverged",
    "degrees=estimate.degrees", "standard_error=estimate.standard_error",
    "error_over_seeds=estimate.over_seeds.standard_error",
    "error_over_speakers=estimate.over_speakers.standard_error",
    "speakers=estimate.speakers", "effective_speakers=estimate.effective", "unit=estimate.unit",
    "paired=estimate.paired", "trimmed=estimate.trimmed",
    "detectable=detectable.value", "repeated", "p_pairs", "p_pairs_holm",
)  # fmt: skip


def contrast_row(verdict: Verdict) -> Json:
    """The row of a contrast, with rates as fractions.

    - low, high: the interval in points, or null; relative: the difference as a share of the baseline's rate
    - margin: on `scale`; superiority: P(a run of the arm is better than one of the baseline)
    """
    row = {name: read_path(verdict, path or name) for name, _, path in (column.partition("=") for column in COLUMNS)}
    if (relative := verdict.relative) is not None:  # of logarithms
        row |= {"relative": math.expm1(relative.value)}
        row |= {"relative_low": _ratio(relative.low), "relative_high": _ratio(relative.high)}
    return row


def read_path(node: Any, path: str) -> Any:
    """The value at a dotted path; None if a part of the path is None."""
    for name in path.split("."):
        node = None if node is None else getattr(node, name)
    return node


def _ratio(logarithm: float) -> float | None:
    return math.expm1(logarithm) if logarithm < MOST_LOG else None


def description_section(comparison: Comparison) -> Section:
    """Mean, deviation with its interval, best and worst; empty if arms are compared."""
    columns: dict[str, Callable[[Description], str]] = {
        "metric": lambda row: row.metric.heading,
        "set": lambda row: row.set,
        "n": lambda row: str(row.spread.runs),
        "mean": lambda row: row.metric.text(row.spread.mean),
        "sd": lambda row: row.metric.text(read_path(row, "spread.deviation.value")),
        "sd, 95 %": lambda row: (
            "NA"
            if (deviation := row.spread.deviation) is None
            else f"{row.metric.text(deviation.low)} to {row.metric.text(deviation.high)}"
        ),
        "best": lambda row: row.metric.text(row.spread.best),
        "worst": lambda row: row.metric.text(row.spread.worst),
    }
    line = (
        "The last weights of runs that differ only in the seed; rates in percent, losses in nats. Chance alone "
        "separates two such runs, so a difference between single runs of other arms means little below twice the sd."
    )
    lost = [f"{len(arm.diverged)} of {len(arm.results)} runs diverged." for arm in comparison.arms if arm.diverged]
    return tabulate("One arm over seeds", descriptions(comparison), columns, [line, *lost])
