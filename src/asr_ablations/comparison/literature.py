"""Published results and claims beside measured ones."""

from collections.abc import Mapping, Sequence
from typing import Literal

from asr_ablations.comparison.alike import did_nothing
from asr_ablations.comparison.arm import Arm
from asr_ablations.comparison.arms import find_arm
from asr_ablations.comparison.contrast import SHOWN, Question, Verdict
from asr_ablations.comparison.declaration import EXPECTABLE, Declaration, Published
from asr_ablations.comparison.result import TableRow

Agreement = Literal["agrees", "disagrees", "cannot tell"]
Expected = Mapping[str, list[str]]
"""`ablation.expected`: the verdicts that agree with the source, by question."""


def beside_the_literature(
    declared: Declaration,
    arms: Sequence[Arm],
    baseline: Arm,
    rows: Sequence[TableRow],
    verdicts: Sequence[Verdict],
) -> list[str]:
    """Lines of text: what the source says, every published rate with the measured one, and whether directions agree."""
    published = _by_arm(declared.published, arms)
    return [
        *_statement(declared),
        *_rates(published, rows),
        *(line for verdict in verdicts if (line := _direction(verdict, published, baseline.name))),
        *(line for verdict in verdicts if (line := _expectation(verdict, declared.expected, arms))),
    ]


def expectation(question: Question, expected: Expected, arms: Sequence[Arm]) -> list[str]:
    """The verdicts that `ablation.expected` has for a question; empty where it says nothing."""
    if question.kind != "arm":
        return expected.get(question.name, [])
    named = {arm.name if (arm := find_arm(name, arms)) else name: verdicts for name, verdicts in expected.items()}
    return named.get(question.name, [])


def agreement(verdict: Verdict, expected: Sequence[str], arms: Sequence[Arm]) -> Agreement:
    """Whether a verdict is an expected one. What decides nothing neither agrees nor disagrees, nor does a choice that
    did nothing.
    """
    if verdict.outcome not in EXPECTABLE or did_nothing(verdict.contrast.question, arms):
        return "cannot tell"
    return "agrees" if verdict.outcome in expected else "disagrees"


def unmatched(expected: Expected, questions: Sequence[Question], arms: Sequence[Arm]) -> list[str]:
    """Warnings about expectations of what is no question of the comparison."""
    names = ", ".join(question.name for question in questions)
    return [
        f"ablation.expected: {name} is no question here; expected one of {names}"
        for name, verdicts in expected.items()
        if not any(expectation(question, {name: verdicts}, arms) for question in questions)
    ]


def _statement(declared: Declaration) -> list[str]:
    source = f" ({declared.source})" if declared.source else ""
    return [f"claim{source}: {declared.claim}"] if declared.claim else []


def _rates(published: Published, rows: Sequence[TableRow]) -> list[str]:
    wer = {(row["arm"], row["set"]): row["wer"] for row in rows}
    lines = []
    for arm, rates in published.items():
        for set_, rate in rates.items():
            value = wer.get((arm, set_))
            measured = "not measured" if value is None else f"measured {100 * value:.2f}"
            lines.append(f"{arm} on {set_}: published {rate:.2f} WER, {measured}")
    return lines


def _direction(verdict: Verdict, published: Published, baseline: str) -> str | None:
    """Whether the measured difference has the sign of the published one; None without a published one."""
    contrast = verdict.contrast
    own, base = (published.get(name, {}).get(contrast.set) for name in (contrast.arm, baseline))
    if own is None or base is None or contrast.metric != "wer" or contrast.question.kind != "arm":
        return None
    gap = own - base
    sign = "worse" if gap > 0 else "better" if gap < 0 else "the same"
    line = f"{contrast.arm} against {baseline} on {contrast.set}: published {abs(gap):.2f} {sign}"
    if verdict.outcome not in SHOWN:
        return f"{line}; here no difference is shown, which neither agrees nor disagrees"
    agreement = "agrees" if verdict.outcome == sign else "differs"
    return f"{line}, measured {100 * abs(contrast.difference):.2f} {verdict.outcome}: the direction {agreement}"


def _expectation(verdict: Verdict, expected: Expected, arms: Sequence[Arm]) -> str | None:
    contrast = verdict.contrast
    verdicts = expectation(contrast.question, expected, arms) if contrast.primary else []
    if not verdicts:
        return None
    claimed = " or ".join(verdicts)
    return f"{contrast.arm}: expected {claimed}, measured {verdict.outcome}: {agreement(verdict, verdicts, arms)}"


def _by_arm(published: Published, arms: Sequence[Arm]) -> Published:
    """The published rates by the names of the arms: `0.2` in the file is the arm dropout=0.2."""
    return {(arm.name if (arm := find_arm(name, arms)) else name): rates for name, rates in published.items()}
