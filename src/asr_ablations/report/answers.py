"""The answers of many sweeps in one table, a row per question: the head of RESULTS.md."""

from collections.abc import Sequence

from asr_ablations.comparison.alike import did_nothing
from asr_ablations.comparison.contrast import Contrast, Verdict
from asr_ablations.comparison.literature import agreement, expectation
from asr_ablations.comparison.metrics import find_metric
from asr_ablations.comparison.result import Comparison
from asr_ablations.comparison.spent import spent
from asr_ablations.report.looks import hours
from asr_ablations.report.markdown import table

HEAD = ("question", "difference", "verdict", "seeds", "the source expects", "agreement", "runs")


def answers(comparisons: Sequence[tuple[str, Comparison]]) -> list[str]:
    """Paragraphs of Markdown: what the columns mean, and the table. comparisons: with the names of their sections, to
    which the rows link. Empty where no comparison has a verdict.
    """
    rows = [row for name, comparison in comparisons for row in _rows(name, comparison)]
    if not rows:
        return []
    return [
        "Difference: of the first from the second, in points of the metric, with the interval of the verdict (for "
        "*equivalent* the one that lies within the margin). Runs: what the sweep's verdicts took, some of them shared "
        "with other sweeps.",
        table(HEAD, rows),
    ]


def _rows(name: str, comparison: Comparison) -> list[list[str]]:
    return [
        [
            f"[{name}](#{name}): {_question(verdict.contrast)}",
            _difference(verdict.contrast),
            _outcome(verdict, comparison),
            " and ".join(map(str, sorted(set(verdict.contrast.seeds.values())))),
            *_source(verdict, comparison),
            _runs(comparison) if first else "",
        ]
        for first, verdict in zip([True, *[False] * len(comparison.answer)], comparison.answer, strict=False)
    ]


def _question(contrast: Contrast) -> str:
    question = contrast.question
    return f"{question.arm} against {question.baseline}{f', {question.within}' if question.within else ''}"


def _outcome(verdict: Verdict, comparison: Comparison) -> str:
    nothing = did_nothing(verdict.contrast.question, comparison.arms)
    return f"{verdict.outcome}: the choice did nothing" if nothing else verdict.outcome


def _difference(contrast: Contrast) -> str:
    metric = find_metric(contrast.metric)
    ends: tuple[float | None, float | None] = (contrast.low, contrast.high)
    if contrast.look is not None and contrast.outcome == "equivalent":
        ends = (contrast.look.low, contrast.look.high)
    size = f"{metric.text(contrast.difference, sign=True)} {metric.label}"
    if ends[0] is None or ends[1] is None:
        return size
    return f"{size} ({metric.text(ends[0], sign=True)} to {metric.text(ends[1], sign=True)})"


def _source(verdict: Verdict, comparison: Comparison) -> list[str]:
    """What the source makes one expect, and whether it agrees."""
    verdicts = expectation(verdict.contrast.question, comparison.expected, comparison.arms)
    return [" or ".join(verdicts), agreement(verdict, verdicts, comparison.arms)] if verdicts else ["–", "–"]


def _runs(comparison: Comparison) -> str:
    """How many runs the sweep's verdicts used, and their hours of training."""
    if comparison.plan is None or comparison.course is None:
        return str(len(comparison.runs))
    cost = spent(comparison.plan, comparison.course, comparison.arms)
    return f"{cost.runs} of {cost.fixed}{f', {hours(cost.hours)}' if cost.hours is not None else ''}"
