"""Evaluations of a run as runs of their own: the same training, another decoder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from asr_ablations.runs.layout import LOOKS
from asr_ablations.runs.reader import UnreadableFileError, read_evaluation, read_utterances
from asr_ablations.runs.record import EvaluationRecord
from asr_ablations.tools.files import format_override, typed
from asr_verdicts.config import Config
from asr_verdicts.errors import UsageError
from asr_verdicts.files import slug
from asr_verdicts.record import Record, SetResult, UtteranceRow


def utterances_of(file: Path) -> Path:
    """The table of utterances beside an evaluation's <name>.json."""
    return file.with_suffix(".utterances.csv")


def read_evaluations(folder: Path, run: Record) -> list[Record]:
    """The records of <run>/evaluations, each with the decoder in the config's place and the evaluation's sets and
    utterances; no curves, since all share one training. Raises UsageError for a folder without any.
    """
    results = [file for file in folder.glob("*.json") if file.name != LOOKS]
    files = sorted(results, key=lambda file: (file.stat().st_mtime_ns, file.name))
    if not files:
        raise UsageError(
            f"{folder}: holds no evaluations; {typed('evaluate', format_override('run', folder.parent))} makes them"
        )
    evaluations = [read_evaluation(file) for file in files]
    names = [evaluation.name for evaluation in evaluations]
    labels = _labels(names, [_decoder(evaluation) for evaluation in evaluations], [file.stem for file in files])
    declared = [evaluation.ablation for evaluation in evaluations]
    ablation = declared[0] if all(one == declared[0] for one in declared) else None  # else of several questions
    run = replace(run, config={**run.config, "ablation": ablation})  # not the training's
    return [
        _record(file, evaluation, label, run)
        for file, evaluation, label in zip(files, evaluations, labels, strict=True)
    ]


def refuse_partial(path: Path, utterances: Sequence[UtteranceRow], sets: Mapping[str, SetResult]) -> None:
    """Raises UnreadableFileError for a table of utterances that is not the one that its summary sums up: rows are gone
    from it, or there twice.
    """
    ids: dict[str, list[str]] = {}
    for row in utterances:
        ids.setdefault(row["set"], []).append(row["id"])
    for name, result in sets.items():
        rows, expected = ids.get(name, []), result.utterances
        if expected is not None and len(rows) != expected:
            raise UnreadableFileError(path, f"it has {len(rows)} rows of {name}, and the summary counts {expected}")
        if len({*rows}) != len(rows):
            raise UnreadableFileError(path, f"it has utterances of {name} twice")


def _decoder(evaluation: EvaluationRecord) -> Config:
    """The decoder's config. Files stand with what they are, not where; tuned values with how they were tuned, so that
    seeds that were tuned alike are one arm.
    """
    files = {key: f"{file.name} {file.sha256[:8]}" for key, file in evaluation.files.items()}
    tuning = evaluation.tuning
    how = f"tuned on {tuning.set} in {tuning.trials} trials" if tuning else ""
    tuned = dict.fromkeys(tuning.chosen, how) if tuning else {}
    return {**evaluation.decoder, **files, **tuned}


def _labels(names: list[str], decoders: list[Config], stems: list[str]) -> list[str]:
    """The decoders' names, with what they differ in where several have one name; the files' names where that does not
    tell them apart.
    """
    labels = []
    for name, decoder in zip(names, decoders, strict=True):
        same = [other for other, other_name in zip(decoders, names, strict=True) if other_name == name]
        varied = [key for key in decoder if len({str(other.get(key)) for other in same}) > 1]
        labels.append(slug("-".join([name, *(f"{key}-{decoder[key]}" for key in varied)])))
    return labels if len(set(labels)) == len(labels) else stems


def _record(file: Path, evaluation: EvaluationRecord, label: str, run: Record) -> Record:
    id_ = run.model.partition("/")[0]
    utterances = read_utterances(utterances_of(file))
    refuse_partial(utterances_of(file), utterances, evaluation.sets)
    others = [line for line in run.overrides if not line.lstrip("+~").startswith("decoder")]
    return replace(
        run,
        folder=file.with_suffix(""),
        config={**run.config, "decoder": _decoder(evaluation), "checkpoint": evaluation.checkpoint},
        overrides=[*others, f"decoder={label}"],
        summary=replace(run.summary, sets=evaluation.sets, test_sets=evaluation.test_sets),
        metrics=[],
        utterances=utterances,
        model=f"{id_}/{evaluation.checkpoint}" if id_ else "",
    )
