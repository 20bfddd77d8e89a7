"""Read the claims of a source from a sweep file, and compare verdicts with them.

A claim is about a corpus, a stage of training and a recipe. Runs that do not meet its conditions neither support nor
refute it. Agreement is decided by the interval of the difference, not by the name of the outcome: a *better* whose
interval lies within the margin does not contradict a source that expects the arms to be equivalent.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from asr_verdicts.arms import NOT_LEARNED, Arm, by_arm, choice_of, find_arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.confounds import value_text
from asr_verdicts.files import Json
from asr_verdicts.identical_arms import did_nothing
from asr_verdicts.record import Record
from asr_verdicts.scales import POINTS
from asr_verdicts.table_columns import rate_rows, value_of
from asr_verdicts.verdict import Verdict

EFFECTS = ("better", "worse", "equivalent", "not learned")  # not learned: the arm, whatever the baseline does
NUMBER = re.compile(r"-?\d+(\.\d*)?(e-?\d+)?")


class Effect(NamedTuple):
    """One of EFFECTS. size: least and most in points, if the source gives one; for *equivalent* the margin."""

    word: str
    size: tuple[float, float] | None = None

    def __str__(self) -> str:
        if self.size is None:
            return self.word
        ends = " to ".join(f"{end:g}" for end in dict.fromkeys(self.size))
        return f"{self.word} {'within' if self.word == 'equivalent' else 'by'} {ends}"


@dataclass(frozen=True)
class Claim:
    """A claim of the source.

    - says: as close to the source's words as a line allows; about: corpus, stage of training and recipe
    - where: conditions on the runs' config by key or group: a value, a list of values, {least: 10} or {most: 5}
    - expected: by question, the effects that agree with the claim; not_comparable: why no run of the sweep can meet it
    """

    says: str
    about: str = ""
    where: dict[str, object] = field(default_factory=dict)
    expected: dict[str, list[Effect]] = field(default_factory=dict)
    not_comparable: str = ""


@dataclass(frozen=True)
class Commentary:
    """The keys of `ablation` in a sweep file that RESULTS.md shows.

    rates: published WER in percent by arm and test set; earlier: the answer of an earlier round, by question.
    """

    source: str | None
    rates: dict[str, dict[str, float]]
    claims: list[Claim]
    earlier: dict[str, str]


def parse_commentary(ablation: Json, arms: Sequence[Arm] = (), baseline: str = "") -> Commentary:
    """Read `ablation`. An unknown key of a claim and an unknown effect fail.

    arms: their names replace the names in the file: `lstm` becomes rnn=lstm. Claims are about the file's baseline only.
    """
    declared, nodes = ablation.get("baseline"), ablation.get("claim") or ""
    arm = find_arm(str(declared), arms)
    expects = declared is None or (arm is not None and arm.name == baseline)
    claims = []
    for node in nodes if isinstance(nodes, list) else [nodes]:
        given = {"expected": ablation.get("expected"), **(node if isinstance(node, dict) else {"says": str(node)})}
        expected = {str(question): parse_effects(effects) for question, effects in (given["expected"] or {}).items()}
        claims.append(Claim(**{**given, "expected": by_arm(expected, arms) if expects else {}}))
    return Commentary(
        ablation.get("source"),
        by_arm({str(name): rates for name, rates in (ablation.get("published") or {}).items()}, arms),
        claims,
        by_arm({str(name): " ".join(text.split()) for name, text in (ablation.get("earlier") or {}).items()}, arms),
    )


def parse_effects(node: object) -> list[Effect]:
    """Read one or several of EFFECTS, or an effect with its size in points: {worse: 1.4}, {worse: [1.4, 2.1]}."""
    if isinstance(node, list):
        return [effect for part in node for effect in parse_effects(part)]
    ((word, size),) = node.items() if isinstance(node, dict) else [(node, None)]
    assert word in EFFECTS, f"{word}: expected {', '.join(EFFECTS)}"
    if size is None:
        return [Effect(word)]
    least, most = size if isinstance(size, list) else (size, size)
    assert 0 <= least <= most, node
    return [Effect(word, (least, most))]


def find_agreements(verdict: Verdict, claims: Sequence[Claim], arms: Sequence[Arm]) -> list[tuple[str, str, str]]:
    """Compare a verdict with every claim about its question.

    Returns for each claim the expected effects, the outcome (agrees, disagrees, cannot tell or not comparable, with
    more words), and the conditions that the runs do not meet.
    """
    runs = [run for arm in arms if arm.name in verdict.question.weights for run in arm.results]
    agreements = []
    for claim in claims:
        if effects := claim.expected.get(verdict.question.name):
            unmet = claim.not_comparable or "; ".join(find_unmet(claim.where, runs))
            about = f"not comparable: the claim is about {claim.about or unmet}"
            outcome = about if unmet else judge(verdict, effects, arms)
            agreements.append((" or ".join(map(str, effects)), outcome, unmet))
    return agreements


def find_unmet(where: Mapping[str, object], runs: Sequence[Record]) -> list[str]:
    """Return the conditions that the runs do not meet, with the values of the runs."""
    unmet = []
    for key, condition in where.items():
        values = sorted({choice_of(run, key) for run in runs})
        if isinstance(condition, dict):
            least, most = ({"least": -math.inf, "most": math.inf} | condition).values()  # no other keys
            numbers = [float(value) if NUMBER.fullmatch(value) else math.nan for value in values]
            is_met = all(least <= number <= most for number in numbers)
            text = " and ".join(f"at {bound} {number:g}" for bound, number in condition.items())
        else:
            allowed = [value_text(value) for value in (condition if isinstance(condition, list) else [condition])]
            is_met, text = set(values) <= set(allowed), " or ".join(allowed)
        if not is_met:
            unmet.append(f"{key} is {' and '.join(values)} here, {text} there")
    return unmet


def judge(contrast: Verdict, effects: Sequence[Effect], arms: Sequence[Arm]) -> str:
    """Return *agrees* if the interval lies within the effects, *disagrees* if it lies outside, or *cannot tell*.

    If an option did nothing, its verdict cannot tell. *agrees in sign, not in size*: the interval does not reach the
    source's size.
    """
    words = {effect.word for effect in effects}
    if "not learned" in words:  # of the arm alone, by its rate
        if contrast.metric != "wer" or contrast.question.kind not in ("arm", "simple effect"):
            return "cannot tell"
        return "agrees" if contrast.rate > NOT_LEARNED else "disagrees"
    if contrast.reason or contrast.decided is None or did_nothing(contrast.question, arms):
        return "cannot tell"
    low, high = contrast.decided.low, contrast.decided.high
    if contrast.look is not None and words == {"equivalent"}:
        low, high = contrast.look.low, contrast.look.high
    ranges = [find_range(effect, contrast) for effect in effects]
    least, most = min(start for start, _ in ranges), max(end for _, end in ranges)
    if not math.isfinite(high - low) or any(math.isnan(start) for start, _ in ranges):
        return "cannot tell"
    if least <= low and high <= most:
        has_unit = contrast.metric != "loss" and contrast.scale is POINTS
        agrees = not has_unit or any(reaches_size(effect, 100 * low, 100 * high) for effect in effects)
        return "agrees" if agrees else "agrees in sign, not in size"
    return "disagrees" if high < least or low > most else "cannot tell"


def find_range(effect: Effect, contrast: Verdict) -> tuple[float, float]:
    """Return the range of differences with this effect, on the scale that decides; nan without a margin."""
    margin = math.nan if contrast.margin is None else contrast.margin
    if effect.size is not None:
        margin = effect.size[1] / 100 if contrast.scale is POINTS else math.nan
    return {"better": (-math.inf, 0.0), "worse": (0.0, math.inf), "equivalent": (-margin, margin)}[effect.word]


def reaches_size(effect: Effect, low: float, high: float) -> bool:
    """Return whether an interval in points reaches the size of an effect, or the effect has no size."""
    if effect.word == "equivalent" or effect.size is None:
        return True
    least, most = effect.size
    start, end = (low, high) if effect.word == "worse" else (-high, -low)
    return start <= most and end >= least


def describe_literature(commentary: Commentary, comparison: Comparison) -> list[str]:
    """List claims, published rates next to measured ones, and the agreement of verdicts with claims."""
    source = f" ({commentary.source})" if commentary.source else ""
    lines = [
        f"claim{source}: {claim.says}{f'. It is about {claim.about}' if claim.about else ''}"
        for claim in commentary.claims
        if claim.says
    ]
    wer = {(row["arm"], row["set"]): value_of(row, "wer") for row in rate_rows(comparison)}
    for arm, rates in commentary.rates.items():
        for set_, rate in rates.items():
            value = wer.get((arm, set_))
            measured = "not measured" if value is None else f"measured {100 * value:.2f}"
            lines.append(f"{arm} on {set_}: published {rate:.2f} WER, {measured}")
    for verdict in comparison.answer:
        for expected, outcome, unmet in find_agreements(verdict, commentary.claims, comparison.arms):
            measured = f"expected {expected}, measured {verdict.outcome}: {outcome}{f' ({unmet})' if unmet else ''}"
            lines.append(f"{verdict.arm}: {measured}")
    questions = list(dict.fromkeys(verdict.question.name for verdict in comparison.verdicts))
    wrong = sorted({name for claim in commentary.claims for name in claim.expected}.difference(questions))
    expected = f"is not a question here; expected one of {', '.join(questions)}"
    return [*lines, *(f"ablation.expected: {name} {expected}" for name in wrong)]
