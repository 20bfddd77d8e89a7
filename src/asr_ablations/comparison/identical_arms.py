"""Arms that are one and the same training: what they differ in did nothing."""

import itertools
from collections.abc import Sequence

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.contrast import Question
from asr_ablations.runs.record import RunRecord

PLACES = ("audio", "offset", "duration", "channel")
"""The place of an utterance, which may differ for the same speech."""


def alike_warnings(arms: Sequence[Arm]) -> list[str]:
    """A warning for every two arms that are alike."""
    return [
        f"{one.name} and {other.name} are alike to the last utterance with the same seed ({', '.join(seeds)}): "
        "what they differ in did nothing in these runs"
        for one, other in itertools.combinations(arms, 2)
        if (seeds := alike(one, other))
    ]


def alike(one: Arm, other: Arm) -> list[str]:
    """The seeds that both arms have, where all runs with equal seeds have the same text for every utterance and the
    same validations; else none. By chance that does not happen; it does where an option never came into play.
    """
    pairs = _pairs(one, other)
    same = all(_found(first) == _found(second) for first, second in pairs)
    return [str(first.seed) for first, _ in pairs] if same else []


def did_nothing(question: Question, arms: Sequence[Arm]) -> bool:
    """True if two of the arms that a question is about are alike."""
    own = [arm for arm in arms if arm.name in question.weights]
    return any(alike(one, other) for one, other in itertools.combinations(own, 2))


def _pairs(one: Arm, other: Arm) -> list[tuple[RunRecord, RunRecord]]:
    """Their finished runs with equal seeds; none where a run does not say what it recognised."""
    seeds = {run.seed: run for run in other.runs if run.utterances}
    pairs = [(run, seeds[run.seed]) for run in one.runs if run.seed in seeds and run.utterances]
    # a run that was taken for both arms would be no pair
    return [] if any(first.folder.resolve() == second.folder.resolve() for first, second in pairs) else pairs


def _found(run: RunRecord) -> list[object]:
    """The hypotheses of a run, and its validations."""
    texts = [{key: value for key, value in row.items() if key not in PLACES} for row in run.utterances]
    validations = [
        {key: value for key, value in row.items() if key.startswith("validation/") and value is not None}
        for row in run.metrics
    ]
    return [texts, [row for row in validations if row]]
