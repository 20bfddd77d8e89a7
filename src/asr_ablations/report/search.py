"""The section of a search's runs, the best first."""

from asr_ablations.comparison.metrics import WER, find_metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.search import OBJECTIVE, is_search, ranked
from asr_ablations.comparison.table import final_value
from asr_ablations.report.section import Section, number

HEADING = "What the search tried"
NOTE = (
    "No verdicts: each choice has one run, and a search prefers what was lucky. Whether the best is better, runs with "
    "fresh seeds must say, in a sweep of their own."
)


def search_section(comparison: Comparison) -> Section:
    """The runs in the order of what the search minimised, with the values that it varied; empty unless a search
    proposed all of them.
    """
    if not is_search(comparison.arms):
        return Section(HEADING)
    tried = ranked(comparison.arms)
    keys = [key for key in comparison.factor if len({arm.levels.get(key) for arm, _ in tried}) > 1]
    metric, name = find_metric(comparison.metric), comparison.set
    head = [*keys, "validation", *([name] if name else []), "epochs"]
    shown = f" {name}: {metric.heading} of the last weights." if name else ""
    rows = [
        [
            *(_short(arm.levels.get(key, "")) for key in keys),
            "diverged" if run.diverged_at is not None else WER.text(run.summary.get(OBJECTIVE)),
            *([metric.text(final_value(run, name, metric.name))] if name else []),
            number(run.summary.get("epochs")),
        ]
        for arm, run in tried
    ]
    return Section(
        HEADING, head, rows, [f"Validation: the best {WER.heading}, which the search minimises.{shown}", NOTE]
    )


def _short(value: str) -> str:
    """A number with four digits: a search draws it with sixteen."""
    try:
        return f"{float(value):.4g}"
    except ValueError:
        return value
