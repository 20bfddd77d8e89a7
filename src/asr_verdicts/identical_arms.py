"""Detect arms that share training runs, and arms whose difference had no effect."""

import itertools
from collections.abc import Collection, Sequence

from asr_verdicts.arms import Arm
from asr_verdicts.config import within
from asr_verdicts.record import Record
from asr_verdicts.verdict import Question

# columns of utterances.csv that locate the audio, which may differ for the same speech
PLACES = ("audio", "offset", "duration", "channel")


def alike_warnings(arms: Sequence[Arm], questions: Sequence[Question]) -> list[str]:
    """Return warnings about arms that share training runs, and about arms with identical results."""
    shared = [copies for question in questions for copies in shared_runs(question.weights, arms)]
    warnings = [
        f"{_describe_sharing(*copies)} (same config and results): counted for {copies[1].name} alone"
        for copies in shared
    ]
    for first, other in itertools.combinations(arms, 2):
        pairs = _pairs(first, other)
        same = [str(run.seed) for run, its in pairs if _same_results(run, its) and not _same_config(run, its)]
        if same:
            part = f"; {len(same)} of {len(pairs)} runs" if len(same) < len(pairs) else ""
            alike = f"identical results with the same seed ({', '.join(same)}{part})"
            warnings.append(f"{first.name} and {other.name} have {alike}: their difference did nothing in these runs")
    return list(dict.fromkeys(warnings))


def count_once(names: Collection[str], arms: Sequence[Arm], *, paired: bool = False) -> tuple[Sequence[Arm], str]:
    """Return the arms with shared runs counted once, and ""; if too few runs would be left, `arms` and the reason.

    A run that several arms share is counted only for the last of them in `names`.

    paired: whether to leave out the seed of a shared run in all of these arms
    """
    shared = shared_runs(names, arms)
    counted = []
    for arm in arms:
        copies = [seeds for first, _, seeds in shared if first is arm or (paired and arm.name in names)]
        counted.append(arm.of_seeds({run.seed for run in arm.results}.difference(*copies)))
    if shared and min(len(arm.results) for arm in counted if arm.name in names) < 2:
        return arms, f"{'; '.join(_describe_sharing(*copies) for copies in shared)}, and too few are left"
    return (counted if shared else arms), ""


def shared_runs(names: Collection[str], arms: Sequence[Arm]) -> list[tuple[Arm, Arm, set[int]]]:
    """Return pairs of arms that share training runs, with the seeds of these runs in the first arm."""
    sides = [arm for name in names for arm in arms if arm.name == name]
    shared = []
    for first, other in itertools.combinations(sides, 2):
        pairs = [(run, its) for run in first.runs for its in other.runs]
        seeds = {run.seed for run, its in pairs if _same_results(run, its) and _same_config(run, its)}
        shared += [(first, other, seeds)] if seeds else []
    return shared


def did_nothing(question: Question, arms: Sequence[Arm]) -> bool:
    """Return whether two arms of the question have identical results for every seed that both have."""
    sides = [arm for arm in arms if arm.name in question.weights]
    pairs = [_pairs(first, other) for first, other in itertools.combinations(sides, 2)]
    return any(of_two and all(itertools.starmap(_same_results, of_two)) for of_two in pairs)


def _describe_sharing(one: Arm, other: Arm, seeds: set[int]) -> str:
    return f"{one.name} shares {len(seeds)} of {len(one.results)} runs with {other.name}"


def _pairs(one: Arm, other: Arm) -> list[tuple[Record, Record]]:
    """Return pairs of finished runs with equal seeds, one from each arm. Runs without utterances are left out."""
    seeds = {run.seed: run for run in other.runs if run.utterances}
    pairs = [(run, seeds[run.seed]) for run in one.runs if run.seed in seeds and run.utterances]
    # if a run folder belongs to both arms, identical results show nothing
    return [] if any(first.folder.resolve() == second.folder.resolve() for first, second in pairs) else pairs


def _same_config(*runs: Record) -> bool:
    """Return whether runs have equal configs except `seeds`. If not, equal results show that an option did nothing."""
    first, other = ({key: leaf for key, leaf in run.content.items() if not within(key, ["seeds"])} for run in runs)
    return first == other


def _same_results(one: Record, other: Record) -> bool:
    """Return whether two runs have the same validation results and hypotheses, some of which are wrong."""
    if one.hypotheses != other.hypotheses:
        return False
    wrong = one.hypotheses != [row["reference"] for row in one.utterances]
    # even different models may all output nothing, or make no errors
    return any(one.hypotheses) and wrong and _results_of(one) == _results_of(other)


def _results_of(run: Record) -> list[object]:
    """Return the rows of utterances.csv, without audio locations, and the validation metrics of a run."""
    texts = [{key: value for key, value in row.items() if key not in PLACES} for row in run.utterances]
    validations = [
        {key: value for key, value in row.items() if key.startswith("validation/") and value is not None}
        for row in run.metrics
    ]
    return [texts, [row for row in validations if row]]
