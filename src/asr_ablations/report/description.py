"""The section that describes one arm over its seeds."""

from asr_ablations.comparison.description import Description, descriptions
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.section import Section


def description_section(comparison: Comparison) -> Section:
    """Mean, deviation with its interval, best and worst; empty where arms are compared."""
    rows = [_row(description) for description in descriptions(comparison.arms)]
    head = ["metric", "set", "n", "mean", "sd", "sd, 95 %", "best", "worst"]
    line = (
        "The last weights of runs that differ in the seed alone. Rates in percent, losses in nats. Nothing but chance "
        "differs between two such runs: a difference between single runs of other arms means little below twice the sd."
    )
    lost = [f"{len(arm.diverged)} of {len(arm.results)} runs diverged." for arm in comparison.arms if arm.diverged]
    return Section("One arm over seeds", head, rows, [line, *lost] if rows else [])


def _row(description: Description) -> list[str]:
    metric, spread = description.metric, description.spread
    deviation = spread.deviation
    return [
        metric.heading,
        description.set,
        str(spread.runs),
        metric.text(spread.mean),
        metric.text(None if deviation is None else deviation.value),
        "NA" if deviation is None else f"{metric.text(deviation.low)} to {metric.text(deviation.high)}",
        metric.text(spread.best),
        metric.text(spread.worst),
    ]
