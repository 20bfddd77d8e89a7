"""Arms that are one and the same training: what they differ in did nothing."""

import itertools
from collections.abc import Sequence

from asr_ablations.comparison.arm import Arm
from asr_ablations.runs.record import RunRecord

PLACES = ("audio", "offset", "duration")
"""Of an utterance: where it lies, which may be another place for the same speech."""


def alike_warnings(arms: Sequence[Arm]) -> list[str]:
    """A warning for every two arms whose runs with equal seeds have, all of them, the same text for every utterance and
    the same validations. By chance that does not happen; it does where an option never came into play.
    """
    warnings = []
    for one, other in itertools.combinations(arms, 2):
        pairs = _pairs(one, other)
        if pairs and all(_found(first) == _found(second) for first, second in pairs):
            seeds = ", ".join(str(first.seed) for first, _ in pairs)
            warnings.append(
                f"{one.name} and {other.name} are alike to the last utterance with the same seed ({seeds}): "
                "what they differ in did nothing in these runs"
            )
    return warnings


def _pairs(one: Arm, other: Arm) -> list[tuple[RunRecord, RunRecord]]:
    """Their finished runs with equal seeds; none where a run does not say what it recognised."""
    seeds = {run.seed: run for run in other.runs if run.utterances}
    pairs = [(run, seeds[run.seed]) for run in one.runs if run.seed in seeds and run.utterances]
    # a run that was taken for both arms would be no pair
    return [] if any(first.folder.resolve() == second.folder.resolve() for first, second in pairs) else pairs


def _found(run: RunRecord) -> list[object]:
    """What a run's model recognised, and its validations."""
    texts = [{key: value for key, value in row.items() if key not in PLACES} for row in run.utterances]
    validations = [
        {key: value for key, value in row.items() if key.startswith("validation/") and value is not None}
        for row in run.metrics
    ]
    return [texts, [row for row in validations if row]]
