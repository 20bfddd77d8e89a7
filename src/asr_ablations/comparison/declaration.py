"""The declaration of a sweep file: the question, and the data that decide it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Literal

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.claims import Claim, agreement_lines, claim_lines, parse_claims
from asr_ablations.runs.arm_names import by_arm
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError, choices

if TYPE_CHECKING:
    from asr_ablations.comparison.contrast import Verdict
    from asr_ablations.comparison.table_columns import TableRow

Published = dict[str, dict[str, float]]
"""WER in percent by arm and test set."""

Scale = Literal["points", "relative"]

FACTORIAL = "factorial"
"""contrasts: factorial asks for all main effects, simple effects and interactions of two factors."""


@dataclass(frozen=True)
class Declaration:
    """The keys of `ablation` in a config, which a sweep file sets.

    factor: keys or groups in which the arms may differ. baseline: an arm. set: the test set that decides, by default
    the first; metric: wer, cer, cer_longer or loss. contrasts: what is compared (comparison.questions), by default
    every arm with the baseline, or all effects where two factors are crossed. scale: points or relative; margin: the
    difference that would not matter, in points of the metric or in percent of the rate (5%); failed: which runs failed
    (comparison.failures). targets: rates for the time to accuracy, 0.2 is 20 %. published: of the source, under the
    names of its own arms. claim, expected: comparison.claims, read into `claims`.

    About answers that were published: withdrawn: {commit: {question: why it does not hold}}, of runs of this commit;
    earlier: {question: what was answered the first time}, where a sweep was asked twice and the runs are lost.
    """

    question: str | None = None
    source: str | None = None
    factor: list[str] = field(default_factory=list)
    baseline: str | None = None
    set: str | None = None
    metric: str | None = None
    contrasts: list[str] = field(default_factory=list)
    scale: Scale = "points"
    margin: float | str | None = None
    failed: object = None
    targets: list[float] = field(default_factory=list)
    published: Published = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    withdrawn: dict[str, dict[str, str]] = field(default_factory=dict)
    earlier: dict[str, str] = field(default_factory=dict)

    def of_arms(self, arms: Sequence[Arm]) -> "Declaration":
        """With the names that tables give to the arms: `lstm` in a sweep file is rnn=lstm."""
        return replace(
            self,
            published=by_arm(self.published, arms),
            claims=[replace(claim, expected=by_arm(claim.expected, arms)) for claim in self.claims],
            withdrawn={commit: by_arm(reasons, arms) for commit, reasons in self.withdrawn.items()},
            earlier=by_arm(self.earlier, arms),
        )


TEXTS = ("question", "source", "baseline", "set", "metric")
READ_INTO_CLAIMS = ("claim", "expected")


def declaration(runs: Sequence[RunRecord]) -> Declaration:
    """The declaration of the first run that has one. Raises UsageError for keys and values of another form, and for
    runs that declare different factors.
    """
    declared = [parse(run.config["ablation"]) for run in runs if run.config.get("ablation")]
    factors = {tuple(one.factor) for one in declared if one.factor}
    if len(factors) > 1:
        names = " and ".join(sorted(", ".join(factor) for factor in factors))
        raise UsageError(f"the runs declare different factors (ablation.factor): {names}")
    return declared[0] if declared else Declaration()


def parse(node: object) -> Declaration:
    """The declaration in a config's `ablation`. Raises UsageError for what is none."""
    if not isinstance(node, Mapping):
        raise UsageError(f"ablation={node}: expected keys such as question and factor")
    known = [name for one in fields(Declaration) for name in (READ_INTO_CLAIMS if one.name == "claims" else [one.name])]
    for key in node:
        if key not in known:
            raise choices("ablation", key, f"one of {', '.join(known)}")
    given = {str(key): value for key, value in node.items() if value is not None}
    for key in TEXTS:
        if isinstance(given.get(key), (Mapping, list)):
            raise UsageError(f"ablation.{key}={given[key]}: expected one text")
    return Declaration(
        **{key: str(given[key]) for key in TEXTS if key in given},
        factor=_texts(given.get("factor")),
        contrasts=_texts(given.get("contrasts")),
        scale=_scale(given.get("scale"), given.get("margin")),
        margin=given.get("margin"),
        failed=given.get("failed"),
        targets=_numbers(given.get("targets")),
        published=_published(given.get("published")),
        claims=parse_claims(given.get("claim"), given.get("expected")),
        withdrawn=_withdrawn(given.get("withdrawn")),
        earlier=_texts_by_name("earlier", given.get("earlier")),
    )


def _withdrawn(value: object) -> dict[str, dict[str, str]]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"ablation.withdrawn={value}: expected {{commit: {{question: why}}}}")
    return {str(commit): _texts_by_name("withdrawn", questions) for commit, questions in value.items()}


def _texts_by_name(key: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or any(not isinstance(text, str) for text in value.values()):
        raise UsageError(f"ablation.{key}={value}: expected {{question: a text}}")
    return {str(name): " ".join(text.split()) for name, text in value.items()}


def _scale(value: object, margin: object) -> Scale:
    if value not in (None, "points", "relative"):
        raise choices("ablation.scale", value, "points or relative")
    scale: Scale = "relative" if value == "relative" or (value is None and str(margin).endswith("%")) else "points"
    if margin is not None:
        margin_on(margin, scale, 1.0, "ablation.margin")  # refuses one that cannot be meant
    return scale


def margin_on(margin: object, scale: Scale, unit: float, name: str) -> float:
    """A margin as it is typed, 2.0 points or 5%, on the scale: a fraction, or a difference of logarithms. unit: from a
    recorded value to the points of its metric. Raises UsageError for another form, or one of the other scale.
    """
    text = str(margin)
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value <= 100 or isinstance(margin, bool):
        raise choices(name, margin, "the difference that would not matter: 2.0 for 2 points, or 5% of the rate")
    if text.endswith("%") != (scale == "relative"):
        wanted = "a percentage, such as 5%," if scale == "relative" else "points, such as 2.0,"
        raise choices(name, margin, f"{wanted} since ablation.scale is {scale}")
    return math.log1p(value / 100) if scale == "relative" else value / unit


def _texts(value: object) -> list[str]:
    return [] if value is None else [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _numbers(value: object) -> list[float]:
    try:
        return [float(text) for text in _texts(value)]
    except ValueError as error:
        raise choices("ablation.targets", value, "rates as fractions: 0.2 is 20 %") from error


def _published(value: object) -> Published:
    if value is None:
        return {}
    try:
        assert isinstance(value, Mapping)
        return {str(arm): {str(set_): float(rate) for set_, rate in rates.items()} for arm, rates in value.items()}
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"ablation.published={value}: expected {{arm: {{set: WER in percent}}}}") from error


def beside_the_literature(
    declared: Declaration,
    arms: Sequence[Arm],
    baseline: Arm,
    rows: "Sequence[TableRow]",
    verdicts: "Sequence[Verdict]",
) -> list[str]:
    """Lines of text: what the source says, every published rate with the measured one, and whether directions agree."""
    return [
        *claim_lines(declared.claims, declared.source),
        *_rates(declared.published, rows),
        *(line for verdict in verdicts if (line := _direction(verdict, declared.published, baseline.name))),
        *(line for verdict in verdicts for line in agreement_lines(verdict, declared.claims, arms)),
    ]


def _rates(published: Published, rows: "Sequence[TableRow]") -> list[str]:
    from asr_ablations.comparison.table_columns import value_of

    wer = {(row["arm"], row["set"]): value_of(row, "wer") for row in rows}
    lines = []
    for arm, rates in published.items():
        for set_, rate in rates.items():
            value = wer.get((arm, set_))
            measured = "not measured" if value is None else f"measured {100 * value:.2f}"
            lines.append(f"{arm} on {set_}: published {rate:.2f} WER, {measured}")
    return lines


def _direction(verdict: "Verdict", published: Published, baseline: str) -> str | None:
    """True if the measured difference has the sign of the published one; None without a published one."""
    from asr_ablations.comparison.contrast import SHOWN

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
