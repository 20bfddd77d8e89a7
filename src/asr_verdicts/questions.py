"""The questions of a comparison: each arm against the baseline, or the effects of two crossed factors."""

import itertools
from collections.abc import Sequence

from asr_verdicts.arms import Named
from asr_verdicts.declaration import FACTORIAL
from asr_verdicts.errors import choices
from asr_verdicts.verdict import Question

FORMS = (
    f"{FACTORIAL}, a factor (its main effect), two factors as a:b (their interaction), or a factor at one choice of "
    "the other, as in 'order | norm=none'"
)


def questions(arms: Sequence[Named], baseline: Named, factor: Sequence[str], declared: Sequence[str]) -> list[Question]:
    """Return the questions of a comparison, in the order in which reports show them.

    declared: value of `ablation.contrasts`. If it is empty and the arms cross two factors, there is a question for
    every effect.

    Raises UsageError if the arms do not allow a declared contrast.
    """
    crossed = _Crossed.of(arms, baseline, factor)
    if crossed is None:
        if declared:
            reason = "arms that are all combinations of two factors; these are not"
            raise choices("ablation.contrasts", ", ".join(declared), reason)
        return against_baseline(arms, baseline)
    entries = declared or [FACTORIAL]
    return list({question.name: question for text in entries for question in crossed.effects(text)}.values())


def against_baseline(arms: Sequence[Named], baseline: Named) -> list[Question]:
    """Return a question for each arm except the baseline: how the arm compares with the baseline."""
    return [
        Question("arm", arm.name, baseline.name, {arm.name: 1.0, baseline.name: -1.0})
        for arm in arms
        if arm is not baseline
    ]


class _Crossed:
    """Arms that form all combinations of two factors. The baseline's choices are the reference levels."""

    def __init__(self, factors: Sequence[str], levels: Sequence[list[str]], names: dict[tuple[str, str], str]) -> None:
        self.factors, self.levels, self.names = list(factors), [list(of) for of in levels], names

    @classmethod
    def of(cls, arms: Sequence[Named], baseline: Named, factor: Sequence[str]) -> "_Crossed | None":
        """Return the crossed arms; None unless they form all combinations of two factors with several levels each."""
        if len(factor) != 2 or any(set(arm.levels) != set(factor) for arm in arms):
            return None
        levels = [list(dict.fromkeys([baseline.levels[one], *(arm.levels[one] for arm in arms)])) for one in factor]
        names = {(arm.levels[factor[0]], arm.levels[factor[1]]): arm.name for arm in arms}
        complete = len(names) == len(arms) == len(levels[0]) * len(levels[1])
        return cls(factor, levels, names) if complete and min(map(len, levels)) > 1 else None

    def effects(self, text: str) -> list[Question]:
        """Return the questions for one entry of `ablation.contrasts`. Raises UsageError if the entry is invalid."""
        if text == FACTORIAL:
            first, second = self.factors
            simple = [f"{factor} | {other}={level}" for factor, other, levels in self._sides() for level in levels]
            return [
                question for entry in (first, second, *simple, f"{first}:{second}") for question in self.effects(entry)
            ]
        head, bar, place = (part.strip() for part in text.partition("|"))
        for factor, other, levels in self._sides():
            if head == factor and not bar:
                return self._differences(
                    "main effect", factor, {level: 1 / len(levels) for level in levels}, f"averaged over {other}"
                )
            if head == factor and bar and place in [f"{other}={level}" for level in levels]:
                return self._differences("simple effect", factor, {place.partition("=")[2]: 1.0}, f"at {place}")
        if not bar and sorted(part.strip() for part in head.split(":")) == sorted(self.factors):
            return self._interactions()
        named = ", ".join(
            f"{factor}={level}" for factor, levels in zip(self.factors, self.levels, strict=True) for level in levels
        )
        raise choices("ablation.contrasts", text, f"{FORMS}; the factors are {' and '.join(self.factors)} ({named})")

    def _sides(self) -> list[tuple[str, str, list[str]]]:
        """Return (factor, other factor, levels of the other factor) for both factors."""
        (first, second), (of_first, of_second) = self.factors, self.levels
        return [(first, second, of_second), (second, first, of_first)]

    def _differences(self, kind: str, factor: str, shares: dict[str, float], within: str) -> list[Question]:
        """Return a question for each level of a factor except the reference level, with which the level is compared.

        shares: weight of each level of the other factor in the average
        """
        reference, *others = self.levels[self.factors.index(factor)]
        return [
            Question(
                kind,  # type: ignore[arg-type]
                f"{factor}={choice}",
                f"{factor}={reference}",
                {
                    self._arm(factor, level, other): sign * share
                    for level, sign in ((choice, 1.0), (reference, -1.0))
                    for other, share in shares.items()
                },
                within,
            )
            for choice in others
        ]

    def _interactions(self) -> list[Question]:
        """Return the questions about interactions between the two factors.

        An interaction is a choice's effect at some level of the second factor, minus its effect at the reference level.
        """
        (first, second), (of_first, of_second) = self.factors, self.levels
        return [
            Question(
                "interaction",
                f"{first}={choice}",
                f"{first}={of_first[0]}",
                {
                    self.names[choice, level]: 1.0,
                    self.names[of_first[0], level]: -1.0,
                    self.names[choice, of_second[0]]: -1.0,
                    self.names[of_first[0], of_second[0]]: 1.0,
                },
                f"at {second}={level} less at {second}={of_second[0]}",
            )
            for choice, level in itertools.product(of_first[1:], of_second[1:])
        ]

    def _arm(self, factor: str, level: str, other: str) -> str:
        pair = (level, other) if factor == self.factors[0] else (other, level)
        return self.names[pair]
