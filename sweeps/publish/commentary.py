"""What a sweep file says of its published answers: the claims and rates of the source, and answers that came before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from asr_verdicts.arm_names import by_arm, find_arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.errors import UsageError
from asr_verdicts.table_columns import TableRow, rate_rows, value_of
from asr_verdicts.verdict import SHOWN, Verdict
from publish.claims import Claim, agreement_lines, claim_lines, parse_claims

Rates = dict[str, dict[str, float]]
"""WER in percent by arm and test set."""


@dataclass(frozen=True)
class Commentary:
    """The keys of `ablation` that a comparison does not read.

    published: rates of the source, under the names of its own arms; claim, expected: read into `claims`; earlier:
    {question: the answer}, where a sweep was asked twice and the first runs are lost. source and baseline are also read
    by a comparison, from the runs: here they are those of the sweep file of today.
    """

    source: str | None = None
    baseline: str | None = None
    published: Rates = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    earlier: dict[str, str] = field(default_factory=dict)


def parse_commentary(node: Mapping[str, object]) -> Commentary:
    """The commentary in a config's `ablation`. Raises UsageError for values of another form."""
    source, baseline = (None if node.get(key) is None else str(node[key]) for key in ("source", "baseline"))
    return Commentary(
        source,
        baseline,
        published=_published(node.get("published")),
        claims=parse_claims(node.get("claim"), node.get("expected")),
        earlier=_earlier(node.get("earlier")),
    )


def _published(value: object) -> Rates:
    if value is None:
        return {}
    try:
        assert isinstance(value, Mapping)
        return {str(arm): {str(set_): float(rate) for set_, rate in rates.items()} for arm, rates in value.items()}
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"ablation.published={value}: expected {{arm: {{set: WER in percent}}}}") from error


def _earlier(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or any(not isinstance(text, str) for text in value.values()):
        raise UsageError(f"ablation.earlier={value}: expected {{question: a text}}")
    return {str(name): " ".join(text.split()) for name, text in value.items()}


def of_comparison(commentary: Commentary, comparison: Comparison) -> Commentary:
    """The commentary with the names that tables give to the arms: `lstm` in a sweep file is rnn=lstm.

    What claims expect is against the baseline that was declared with them: against another one they expect nothing.
    """
    arms = comparison.arms
    declared = None if commentary.baseline is None else find_arm(commentary.baseline, arms)
    expects = commentary.baseline is None or (declared is not None and declared.name == comparison.baseline)
    return replace(
        commentary,
        published=by_arm(commentary.published, arms),
        claims=[
            replace(claim, expected=by_arm(claim.expected, arms) if expects else {}) for claim in commentary.claims
        ],
        earlier=by_arm(commentary.earlier, arms),
    )


def literature(commentary: Commentary, comparison: Comparison) -> list[str]:
    """Lines of text: what the source says, every published rate with the measured one, and whether directions agree."""
    published, verdicts = commentary.published, comparison.verdicts
    return [
        *claim_lines(commentary.claims, commentary.source),
        *_rates(published, rate_rows(comparison)),
        *(line for verdict in verdicts if (line := _direction(verdict, published, comparison.baseline))),
        *(line for verdict in verdicts for line in agreement_lines(verdict, commentary.claims, comparison.arms)),
        *_unknown(commentary.claims, [verdict.question.name for verdict in verdicts]),
    ]


def _unknown(claims: Sequence[Claim], questions: Sequence[str]) -> list[str]:
    """Lines on expectations about what is not a question of the comparison."""
    unknown = sorted({name for claim in claims for name in claim.expected if name not in questions})
    asked = ", ".join(dict.fromkeys(questions))
    return [f"ablation.expected: {name} is not a question here; expected one of {asked}" for name in unknown]


def _rates(published: Rates, rows: Sequence[TableRow]) -> list[str]:
    wer = {(row["arm"], row["set"]): value_of(row, "wer") for row in rows}
    lines = []
    for arm, rates in published.items():
        for set_, rate in rates.items():
            value = wer.get((arm, set_))
            measured = "not measured" if value is None else f"measured {100 * value:.2f}"
            lines.append(f"{arm} on {set_}: published {rate:.2f} WER, {measured}")
    return lines


def _direction(verdict: Verdict, published: Rates, baseline: str) -> str | None:
    """A line on the sign of the measured and of the published difference; None without a published one."""
    contrast = verdict
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
