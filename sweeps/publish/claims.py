"""What a source claims: what the claim is about, the effects it makes one expect, and whether a verdict agrees.

A claim is about a corpus, a stage of training and a recipe. Runs that do not meet its conditions neither support nor
refute it. Agreement goes by the interval of the difference and not by the name of the outcome: a *better* whose
interval lies within the margin is no contradiction to a source that expects the arms to be equivalent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from asr_verdicts.arms import Arm, choice_of
from asr_verdicts.confounds import value_text
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import Record

if TYPE_CHECKING:
    from asr_verdicts.verdict import Verdict

EXPECTABLE = ("better", "worse", "equivalent", "not learned", "interaction shown")
"""The effects that a source can claim. not learned: of the arm, whatever the baseline does."""
BOUNDS = ("least", "most")
FORM = (
    f"{{question: one or several of {', '.join(EXPECTABLE)}, "
    "or a size in points: {worse: 1.4}, {worse: [1.4, 2.1]}, {equivalent: 1}}"
)


@dataclass(frozen=True)
class Effect:
    """An effect in the words of EXPECTABLE. least, most: its size in points, where the source gives one; of
    *equivalent* the difference that would not matter, else the margin of the plan.
    """

    word: str
    least: float | None = None
    most: float | None = None

    @property
    def text(self) -> str:
        if self.least is None or self.most is None:
            return self.word
        size = f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"
        return f"{self.word} {'within' if self.word == 'equivalent' else 'by'} {size}"


Expected = Mapping[str, list[Effect]]
"""The effects that agree with a claim, by question: an arm, or an effect as tables call it."""


@dataclass(frozen=True)
class Claim:
    """says: the claim, as close to the source's words as a line allows; about: corpus, stage of training and recipe.

    where: conditions on the config of the runs, by dotted key or group: a value, a list of values, or {least: 10} and
    {most: 5}. not_comparable: why no run of the sweep can meet the claim, where no key says so.
    """

    says: str
    about: str = ""
    where: dict[str, object] = field(default_factory=dict)
    expected: dict[str, list[Effect]] = field(default_factory=dict)
    not_comparable: str = ""


def parse_claims(claim: object, expected: object) -> list[Claim]:
    """The claims of a declaration. claim: a text, a claim with keys, or a list of these; expected: of the claims that
    have none of their own. Raises UsageError for another form.
    """
    shared = parse_expected(expected)
    entries = claim if isinstance(claim, list) else [] if claim is None else [claim]
    claims = [_claim(entry, shared) for entry in entries]
    return claims or ([Claim("", expected=shared)] if shared else [])


def _claim(entry: object, shared: dict[str, list[Effect]]) -> Claim:
    if not isinstance(entry, Mapping):
        return Claim(str(entry), expected=shared)
    known = [one.name for one in fields(Claim)]
    for key in entry:
        if key not in known:
            raise choices("ablation.claim", key, f"one of {', '.join(known)}")
    if "says" not in entry:
        raise UsageError(f"ablation.claim={dict(entry)}: expected a key `says`, beside {', '.join(known[1:])}")
    where = entry.get("where") or {}
    if not isinstance(where, Mapping) or not all(_is_condition(value) for value in where.values()):
        raise UsageError(f"ablation.claim.where={where}: expected {{key: value, [values], {{least: 10}}, {{most: 5}}}}")
    return Claim(
        says=str(entry["says"]),
        about=str(entry.get("about") or ""),
        where={str(key): value for key, value in where.items()},
        expected=parse_expected(entry["expected"]) if "expected" in entry else shared,
        not_comparable=str(entry.get("not_comparable") or ""),
    )


def _is_condition(value: object) -> bool:
    if not isinstance(value, Mapping):
        return True
    return bool(value) and all(key in BOUNDS and isinstance(bound, (int, float)) for key, bound in value.items())


def parse_expected(value: object) -> dict[str, list[Effect]]:
    """`expected` of a claim. Raises UsageError for another form."""
    if value is None:
        return {}
    try:
        assert isinstance(value, Mapping)
        return {str(name): _effects(of) for name, of in value.items()}
    except (AssertionError, TypeError, ValueError) as error:
        raise UsageError(f"ablation.expected={value}: expected {FORM}") from error


def _effects(value: object) -> list[Effect]:
    if isinstance(value, list):
        return [effect for one in value for effect in _effects(one)]
    if not isinstance(value, Mapping):
        assert str(value) in EXPECTABLE
        return [Effect(str(value))]
    ((word, size),) = value.items()
    assert str(word) in ("better", "worse", "equivalent")
    least, most = size if isinstance(size, list) else (size, size)
    assert 0 <= float(least) <= float(most)
    return [Effect(str(word), float(least), float(most))]


@dataclass(frozen=True)
class Agreement:
    """A claim beside a verdict. outcome: agrees, disagrees, cannot tell, or not comparable with the reason; unmet: the
    conditions of the claim that the runs do not meet.
    """

    claim: Claim
    effects: list[Effect]
    outcome: str
    unmet: list[str] = field(default_factory=list)

    @property
    def expected(self) -> str:
        return " or ".join(effect.text for effect in self.effects)


def agreements(verdict: "Verdict", claims: Sequence[Claim], arms: Sequence[Arm]) -> list[Agreement]:
    """Every claim that expects something of the verdict's question."""
    contrast = verdict
    runs = [run for arm in arms if arm.name in contrast.question.weights for run in arm.results]
    held = []
    for claim in claims:
        if effects := claim.expected.get(contrast.question.name):
            unmet = [claim.not_comparable] if claim.not_comparable else _unmet(claim.where, runs)
            about = claim.about or "; ".join(unmet)
            outcome = f"not comparable: the claim is about {about}" if unmet else agreement(contrast, effects, arms)
            held.append(Agreement(claim, effects, outcome, unmet))
    return held


def _unmet(where: Mapping[str, object], runs: Sequence[Record]) -> list[str]:
    """The conditions that a run does not meet, with the values that the runs have."""
    unmet = []
    for key, condition in where.items():
        values = sorted({choice_of(run, key) for run in runs})
        if not all(_meets(value, condition) for value in values):
            unmet.append(f"{key} is {' and '.join(values)} here, {_condition_text(condition)} there")
    return unmet


def _meets(value: str, condition: object) -> bool:
    if isinstance(condition, Mapping):
        try:
            number = float(value)
        except ValueError:
            return False
        return condition.get("least", -math.inf) <= number <= condition.get("most", math.inf)
    return value in [value_text(one) for one in (condition if isinstance(condition, list) else [condition])]


def _condition_text(condition: object) -> str:
    if isinstance(condition, Mapping):
        return " and ".join(f"at {key} {bound:g}" for key, bound in condition.items())
    return " or ".join(value_text(one) for one in (condition if isinstance(condition, list) else [condition]))


def agreement(contrast: "Verdict", effects: Sequence[Effect], arms: Sequence[Arm]) -> str:
    """agrees: the interval lies within the effects; disagrees: it has no part of them; else cannot tell. A choice that
    did nothing tells nothing. *agrees in sign, not in size*: of an effect with a size that the interval does not reach.
    """
    from asr_verdicts.identical_arms import did_nothing

    if any(effect.word == "not learned" for effect in effects):
        return _not_learned(contrast)
    if contrast.estimate is None or contrast.reason or did_nothing(contrast.question, arms):
        return "cannot tell"
    found = contrast.decided
    ends = (math.nan, math.nan) if found is None else (found.low, found.high)
    if contrast.look is not None and all(effect.word == "equivalent" for effect in effects):
        ends = (contrast.look.low, contrast.look.high)
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high)):
        return "cannot tell"
    if any(effect.word == "interaction shown" for effect in effects):
        return "agrees" if low > 0 or high < 0 else "cannot tell"
    ranges = [_range(effect, contrast) for effect in effects]
    if any(math.isnan(least) for least, _ in ranges):
        return "cannot tell"
    least, most = min(one for one, _ in ranges), max(one for _, one in ranges)
    if least <= low and high <= most:
        return _with_size(contrast, effects, low, high)
    return "disagrees" if high < least or low > most else "cannot tell"


def _range(effect: Effect, contrast: "Verdict") -> tuple[float, float]:
    """The differences that are such an effect, on the scale that decides; nan where nobody has said which do not
    matter.
    """
    margin = math.nan if contrast.margin is None else contrast.margin
    if effect.most is not None:  # in points
        margin = effect.most / 100 if contrast.scale == "points" else math.nan
    ranges = {"better": (-math.inf, 0.0), "worse": (0.0, math.inf), "equivalent": (-margin, margin)}
    return ranges[effect.word]


def _with_size(contrast: "Verdict", effects: Sequence[Effect], low: float, high: float) -> str:
    sized = [effect for effect in effects if effect.least is not None and effect.word != "equivalent"]
    if contrast.metric == "loss" or contrast.scale != "points" or not sized or len(sized) < len(effects):
        return "agrees"
    for effect in sized:
        assert effect.least is not None
        assert effect.most is not None
        ends = sorted((1 if effect.word == "worse" else -1) * size / 100 for size in (effect.least, effect.most))
        if low <= ends[1] and high >= ends[0]:
            return "agrees"
    return "agrees in sign, not in size"


def _not_learned(contrast: "Verdict") -> str:
    """Of the arm alone, by the rate above which a model has not learned."""
    from asr_verdicts.verdict import NOT_LEARNED

    if contrast.metric != "wer" or contrast.question.kind not in ("arm", "simple effect"):
        return "cannot tell"
    return "agrees" if contrast.rate > NOT_LEARNED else "disagrees"


def claim_lines(claims: Sequence[Claim], source: str | None) -> list[str]:
    """The claims, and what each is about."""
    of = f" ({source})" if source else ""
    return [
        f"claim{of}: {claim.says}{f' (about {claim.about})' if claim.about else ''}" for claim in claims if claim.says
    ]


def agreement_lines(verdict: "Verdict", claims: Sequence[Claim], arms: Sequence[Arm]) -> list[str]:
    """A line for each claim about the question of a verdict that is an answer."""
    if not verdict.primary:
        return []
    lines = []
    for held in agreements(verdict, claims, arms):
        unmet = f" ({'; '.join(held.unmet)})" if held.unmet else ""
        line = f"{verdict.arm}: expected {held.expected}, measured {verdict.outcome}: {held.outcome}{unmet}"
        lines.append(line)
    return lines
