"""Collect the error rates of all arms on a test set, with errors per utterance on utterances that all runs share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np

from asr_verdicts.arms import Arm
from asr_verdicts.error_counts import COLUMNS
from asr_verdicts.record import Record, UtteranceRow
from asr_verdicts.statistics.sample import SPEAKERS, Array, Sample

SHARE = 0.9  # smallest share of their utterances that runs must have in common to be compared

Key = tuple[str, str]  # id and reference of an utterance
Rows = dict[Key, UtteranceRow]


@dataclass(frozen=True)
class SetSamples:
    """The samples of the arms that can be compared on a test set, and warnings about arms that cannot.

    - samples: sample of each arm, by name
    - apart: arms whose test set shares no utterance with the baseline's, such as arms for another language
    - models: name of the trained model of each run in a sample, or its seed if there are replicates, by arm
    - replicates: whether each seed has its own corpus or test speakers, so that runs with the same seed form pairs
    - overlap: ratio of test to training data if the replicates are folds of one corpus, else 0 (see `paired_estimate`)
    - references: reference transcripts of the common utterances; empty if there are no utterances
    - hypotheses: hypotheses of each finished run, by arm; empty if there are no utterances
    """

    samples: dict[str, Sample] = field(default_factory=dict)
    apart: set[str] = field(default_factory=set)
    models: dict[str, list[str]] = field(default_factory=dict)
    replicates: bool = False
    overlap: float = 0.0
    references: list[str] = field(default_factory=list)
    hypotheses: dict[str, list[list[str]]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def common_replicates(self, arms: Iterable[str]) -> list[str]:
        """Return the replicates, such as folds, that all given arms have in common."""
        first, *others = (self.models[arm] for arm in arms)
        return [replicate for replicate in first if all(replicate in other for other in others)]


def measure_set(arms: Sequence[Arm], baseline: Arm, set_: str, metric: str) -> SetSamples:
    """Return the samples of all arms on a test set. A diverged run counts as an error rate of 100 %."""
    rows = {id(run): _rows_of_set(run, set_) for arm in arms for run in arm.runs} if metric in COLUMNS else {}
    if not any(rows.values()):
        return _sample_rates(arms, set_, metric)
    if _have_own_corpora(arms, rows):
        return replace(_sample_rates(arms, set_, metric, replicates=True), overlap=_measure_overlap(arms, set_))
    tested = _choose_utterances(arms, baseline, rows, set_)
    result = SetSamples(warnings=tested.warnings, apart={name for name in tested.keys if name in tested.apart})
    for arm in arms:
        if (keys := tested.keys.get(arm.name)) is None:
            continue
        source = next((run for run in [*arm.runs, *baseline.runs] if keys[0] in rows[id(run)]), None)
        assert source is not None
        described = rows[id(source)]
        column = "wer" if metric == "wer" else "cer"
        length = itemgetter(COLUMNS[column][0])
        totals = np.array([length(described[key]) for key in keys], dtype=float)
        errors = [
            totals if run.diverged_at is not None else _utterance_errors(rows[id(run)], keys, metric, totals)
            for run in arm.results
        ]
        units, kind = units_of_rows([described[key] for key in keys])
        result.samples[arm.name] = Sample.of_errors(np.array(errors), totals, np.array(units), kind)
        result.models[arm.name] = [run.model for run in arm.results]
        if not tested.apart:
            result.hypotheses[arm.name] = [[rows[id(run)][key]["hypothesis"] for key in keys] for run in arm.runs]
            result.references[:] = [text for _, text in keys]
    return result


def units_of_rows(rows: Sequence[UtteranceRow]) -> tuple[list[str], str]:
    """Return the sampling unit of each utterance, and the plural name of such units, such as speakers or voices."""
    named = [row.get("unit") or "" for row in rows]
    if not all(named):
        return [str(row["speaker"]) for row in rows], SPEAKERS
    kinds = {unit.partition(" ")[0] for unit in named}
    return named, f"{kinds.pop()}s" if len(kinds) == 1 else "units"


def _utterance_errors(rows: Rows, keys: Sequence[Key], metric: str, totals: Array) -> Array:
    """Return an array of a run's errors in each utterance. Their sum divided by the sum of `totals` is the error rate.

    The denominator of cer_longer depends on the hypotheses. The errors are therefore linearised: the run's rate times
    `totals`, plus the errors by which the utterance exceeds this rate. The variance of a ratio depends only on these
    excess errors (Cochran 1977, chapter 6).
    """
    read = itemgetter(*COLUMNS[metric])
    lengths, substitutions, deletions, insertions = np.array([read(rows[key]) for key in keys], dtype=float).T
    errors = substitutions + deletions + insertions
    if metric == "cer_longer":
        lengths = lengths + np.maximum(0, insertions - deletions)
    if np.array_equal(lengths, totals):
        return errors
    rate = errors.sum() / max(1.0, lengths.sum())
    return rate * totals + (errors - rate * lengths) * totals.sum() / max(1.0, lengths.sum())


def _measure_overlap(arms: Sequence[Arm], set_: str) -> float:
    """Return the ratio of test to training utterances if the runs are folds of one corpus, else 0."""
    runs = [run for arm in arms for run in arm.runs if (run.config.get("data") or {}).get("fold") is not None]
    tested = [(run.data.sets[set_].utterances or 0) / (run.data.sets["train"].utterances or 1) for run in runs]
    return float(np.mean(tested)) if tested else 0.0


def _sample_rates(arms: Sequence[Arm], set_: str, metric: str, replicates: bool = False) -> SetSamples:
    """Build samples from error rates alone, without errors per utterance. replicates: as in SetSamples."""
    result = SetSamples(replicates=replicates)
    for arm in arms:
        measured = [run for run in arm.results if _read_rate(run, set_, metric) is not None]
        words = [run.value(set_, "words" if metric == "wer" else "characters") for run in measured]
        total = next((count for count in words if count), None)
        if measured:
            rates = np.array([_read_rate(run, set_, metric) for run in measured], dtype=float)
            result.samples[arm.name] = Sample.of_rates(rates, total)
            result.models[arm.name] = [str(run.seed) if replicates else run.model for run in measured]
        else:
            result.warnings.append(f"{set_}: {arm.name} has no result on this set: not compared")
    return result


def _read_rate(run: Record, set_: str, metric: str) -> float | None:
    """Return the error rate or loss of a run on a set. A diverged run has an error rate of 1, but no loss (None)."""
    if run.diverged_at is not None:
        return 1.0 if metric in COLUMNS else None
    return run.value(set_, metric)


def _rows_of_set(run: Record, set_: str) -> Rows:
    rows = (row for row in run.utterances if row["set"] == set_)
    return {(str(row["id"]), str(row["reference"])): row for row in rows}


def _have_own_corpora(arms: Sequence[Arm], rows: Mapping[int, Rows]) -> bool:
    """Return whether each seed was tested on different utterances, which are the same for all arms."""
    by_seed: dict[int, set[frozenset[Key]]] = {}
    for arm in arms:
        for run in arm.runs:
            by_seed.setdefault(run.seed, set()).add(frozenset(rows[id(run)]))
    alike = all(len(of_seed) == 1 for of_seed in by_seed.values())
    return alike and len(by_seed) > 1 and len(set.union(*by_seed.values())) == len(by_seed)


@dataclass(frozen=True)
class _Tested:
    """The utterances on which arms are compared, and warnings about arms that are not compared.

    - keys: utterances of each arm, sorted by id
    - apart: arms with their own test set
    """

    keys: dict[str, list[Key]]
    apart: set[str]
    warnings: list[str]


def _choose_utterances(arms: Sequence[Arm], baseline: Arm, rows: Mapping[int, Rows], set_: str) -> _Tested:
    """Choose the utterances that all runs of the compared arms have in common.

    An arm that shares no utterance with the baseline, such as an arm with another language, is compared on its own test
    set. An arm with too few of the baseline's utterances is not compared.
    """
    everything = {key for run in baseline.runs for key in rows[id(run)]}
    common, apart, warnings = everything, {}, []
    compared = []
    for arm in [baseline, *(arm for arm in arms if arm is not baseline)]:
        if undecoded := [str(run.seed) for run in arm.runs if not rows[id(run)]]:
            which = f" with seed {', '.join(undecoded)}" if len(undecoded) < len(arm.runs) else ""
            warnings.append(f"{set_}: {arm.name}{which} was not decoded on this set: not compared")
            continue
        by_run = [set(rows[id(run)]) for run in arm.runs] or [everything]
        shared, largest = set.intersection(*by_run), max(map(len, by_run))
        if not shared or len(shared) < SHARE * largest:
            warnings.append(f"{set_}: the runs of {arm.name} were tested on different utterances: not compared")
        elif not shared & everything:
            apart[arm.name] = sorted(shared)
        elif len(shared & everything) < SHARE * max(len(everything), largest):
            warnings.append(f"{set_}: {arm.name} was tested on different utterances from {baseline.name}: not compared")
        else:
            common = common & shared
            compared.append(arm)
    if baseline not in compared:
        return _Tested({}, set(), warnings)
    lacking = [f"{arm.name}/{run.seed}" for arm in compared for run in arm.runs if not everything <= set(rows[id(run)])]
    if lacking:
        warnings.append(
            f"{set_}: not every run was tested on the same utterances ({', '.join(lacking[:5])}): compared on the "
            f"{len(common)} that all have"
        )
    if apart:
        warnings.append(f"{set_}: {', '.join(apart)} has its own test set, so texts and speakers also differ")
    keys = {arm.name: sorted(common) for arm in compared} | apart
    return _Tested(keys, set(apart), warnings)
