"""The records of runs: what comparisons are made from."""

import csv
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from rich.progress import track

from asr_ablations.runs import layout
from asr_ablations.runs.identity import BEHAVIOUR, identity_of
from asr_ablations.runs.layout import LOOKS
from asr_ablations.runs.reader import (
    EvaluationRecord,
    Seeded,
    Status,
    UnreadableFileError,
    read_config,
    read_data,
    read_environment,
    read_evaluation,
    read_losses,
    read_metrics,
    read_model,
    read_overrides,
    read_recorded,
    read_summary,
    read_utterances,
    readable,
)
from asr_ablations.runs.status import RESULTS, Fate, fate, fate_of, status_of
from asr_ablations.runs.sweep_history import newest_declaration, places, searched_arms
from asr_ablations.tools.files import format_override, typed
from asr_verdicts.config import Config, determining
from asr_verdicts.errors import UsageError
from asr_verdicts.files import slug
from asr_verdicts.record import (
    NO_SUMMARY,
    DataRecord,
    Record,
    Records,
    SetResult,
    Unfinished,
    UnfinishedState,
    UtteranceRow,
)
from asr_verdicts.terminal import console

EDITED = "its config.yaml is not the one that it ran with: environment.json has another id"
RENAMED = "its overrides are not those in its config.yaml: its arm may have the name of another"


def list_edits(run: Record) -> list[str]:
    """Changes of a run's record since the run, in a line each. An evaluation has none: its decoder is in the config."""
    if run.folder.parent.name == layout.EVALUATIONS:
        return []
    lines, recorded, fingerprint = [], run.environment.id, run.environment.data_fingerprint
    if recorded is not None and fingerprint is not None and run.environment.behaviour == BEHAVIOUR:
        lines += [EDITED] if identity_of(determining(run.config), fingerprint) != recorded else []
    typed = run.config.get("overrides")  # compared as lines, since a value may hold several
    if typed is not None and [line for word in typed for line in word.split("\n") if line] != run.overrides:
        lines.append(RENAMED)
    return lines


CHANGED = "{} of {} changed in the sweep file after its first runs: choices with known results are exploratory"
DECIDING = ("factor", "baseline", "set", "metric", "contrasts", "scale", "margin", "failed", "claim", "expected")
"""Keys of a declaration by which the verdicts change."""
KEPT_ASIDE = re.compile(r"-[0-9a-f]{8}\.\d+$")
"""The end of the name of a folder that an earlier run of the same content had."""

T = TypeVar("T")


def load(folders: Sequence[Path]) -> Records:
    """All runs of the folders: runs, sweeps, or the evaluations of a run. Raises UsageError if there are none.

    A run that has a result and cannot be read is among the unfinished, as damaged.
    """
    records: dict[Path, Record] = {}
    unfinished: dict[Path, Unfinished] = {}
    sweeps = [folder for folder in folders if folder.name != layout.EVALUATIONS]
    for folder in folders:
        if folder.name == layout.EVALUATIONS:
            records |= {run.folder: run for run in read_evaluations(folder, read_run(folder.parent))}
    manifest = cache(_manifest)  # a search's names hundreds of arms: it is read once
    changed: dict[str, set[str]] = {}
    paths, terminal = [path for folder in sweeps for path in _run_folders(folder)], console(stderr=True)
    for path in track(paths, "reading runs", console=terminal, transient=True, disable=not terminal.is_terminal):
        place = path.resolve()
        if place in records or place in unfinished:
            continue
        ended = fate_of(path)
        if ended.state != "done" and ended.state != "diverged":
            unfinished[place] = _describe_unfinished(place, ended.state, ended.reason)
            continue
        try:
            run = _read(path, ended, manifest(place.parent))
        except UsageError as error:
            reason = f"damaged: {error}".replace(f"{path}/", "")
            unfinished[place] = _describe_unfinished(place, "damaged", reason)
            continue
        sweep = path.parent.resolve()
        if (declared := manifest(sweep).declared) is not None:
            if isinstance(typed := run.config.get("ablation"), dict):
                keys = {f"ablation.{key}" for key in DECIDING if typed.get(key) != declared.get(key)}
                changed.setdefault(sweep.name, set()).update(keys)
            run = replace(run, config={**run.config, "ablation": declared})
        records[place] = run
    ordered = sorted(records.values(), key=lambda run: (run.environment.started or "", str(run.folder)))
    return Records(
        runs=[run for run in ordered if run.diverged_at is None],
        diverged=[run for run in ordered if run.diverged_at is not None],
        unfinished=list(unfinished.values()),
        warnings=[
            *(CHANGED.format(", ".join(sorted(keys)), sweep) for sweep, keys in changed.items() if keys),
            *(f"{run.folder.name}: {edit}" for run in ordered for edit in list_edits(run)),
        ],
    )


def read_run(folder: Path) -> Record:
    """The record of one finished run, or of one that diverged. Raises UsageError for one that is not whole."""
    return _read(folder, fate_of(folder), _manifest(folder.resolve().parent))


class _Manifest(NamedTuple):
    """The runs that a search proposed, the place of each run by its id, and the newest declaration, if any."""

    searched: frozenset[str]
    places: dict[str, int]
    declared: Config | None


def _manifest(sweep: Path) -> _Manifest:
    return _Manifest(searched_arms(sweep), places(sweep), newest_declaration(sweep))


def _read(folder: Path, ended: Fate, manifest: _Manifest) -> Record:
    """The record of a run that has a result."""
    diverged = ended.state == "diverged"
    try:
        config, overrides, environment = read_config(folder), read_overrides(folder), read_environment(folder)
        if folder.is_symlink():  # taken over from another sweep, where it answered another question
            with suppress(FileNotFoundError, UnreadableFileError):
                config = read_recorded(layout.frozen_config(folder))
            overrides = [str(line) for line in config.get("overrides") or overrides]
        summary = _if_there(read_summary, folder, NO_SUMMARY) if diverged else read_summary(folder)
        id_ = summary.id or environment.id or ""
        utterances = [] if diverged else read_utterances(folder / layout.UTTERANCES)
        if not diverged:
            refuse_partial(folder / layout.UTTERANCES, utterances, summary.sets)
        read_model(folder)  # only whether they can be read: tables and figures do so later
        _if_there(read_losses, folder, list[str]())
        return Record(
            folder=folder,
            config=config,
            overrides=overrides,
            summary=summary,
            metrics=_if_there(read_metrics, folder, []) if diverged else read_metrics(folder),
            utterances=utterances,
            environment=environment,
            data=_if_there(read_data, folder, DataRecord()),
            model=f"{id_}/{layout.LAST}" if id_ else "",
            searched=id_ in manifest.searched,
            diverged_at=ended.diverged_at,
            place=manifest.places.get(id_),
        )
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise UsageError(f"{folder}: its status is {ended.state}, but {missing} is missing") from error


def _if_there(read: Callable[[Path], T], folder: Path, otherwise: T) -> T:
    try:
        return read(folder)
    except FileNotFoundError:
        return otherwise


def _describe_unfinished(folder: Path, state: UnfinishedState, reason: str) -> Unfinished:
    """A run without a result, and what it was to be, as far as its files can be read."""
    for path in (folder / layout.CONFIG, layout.frozen_config(folder)):
        try:
            config = read_recorded(path, Seeded)
        except (FileNotFoundError, UnreadableFileError):
            continue
        return Unfinished(folder, state, reason, config, config.get("overrides", []))
    return Unfinished(folder, state, reason)


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; expected a sweep's, or a run's")
    if layout.is_run(folder):
        return [folder]
    begun = {path.parent for path in folder.glob(f"*/{layout.CONFIG}")}  # whose status was lost, too
    children = {path for path in {*layout.runs_in(folder), *begun} if not KEPT_ASIDE.search(path.name)}
    frozen = [folder / path.stem for path in (folder / layout.ARMS).glob("*.yaml")]  # arms that never started, too
    if not children and not frozen:
        raise UsageError(f"{folder}: holds no runs; expected a sweep's folder, or a run's with its {layout.STATUS}")
    # a later launch with more that varies calls the same arm otherwise
    by_id = {path.name.rpartition("-")[2]: path for path in [*sorted(frozen), *children]}
    return sorted({*children, *by_id.values()})


def utterances_of(file: Path) -> Path:
    """The table of utterances beside an evaluation's <name>.json."""
    return file.with_suffix(".utterances.csv")


def read_evaluations(folder: Path, run: Record) -> list[Record]:
    """The evaluations of a run as records: with their decoder, sets and utterances, without curves."""
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
    ablation = declared[0] if all(question == declared[0] for question in declared) else None
    config = {**run.config, "ablation": ablation}  # not the training's
    id_ = run.model.partition("/")[0]
    others = [line for line in run.overrides if not line.lstrip("+~").startswith("decoder")]
    records = []
    for file, evaluation, label in zip(files, evaluations, labels, strict=True):
        utterances = read_utterances(utterances_of(file))
        refuse_partial(utterances_of(file), utterances, evaluation.sets)
        record = replace(
            run,
            folder=file.with_suffix(""),
            config={**config, "decoder": _decoder(evaluation), "checkpoint": evaluation.checkpoint},
            overrides=[*others, f"decoder={label}"],
            summary=replace(run.summary, sets=evaluation.sets, test_sets=evaluation.test_sets),
            metrics=[],
            utterances=utterances,
            model=f"{id_}/{evaluation.checkpoint}" if id_ else "",
        )
        records.append(record)
    return records


def refuse_partial(path: Path, utterances: Sequence[UtteranceRow], sets: Mapping[str, SetResult]) -> None:
    """Raises UnreadableFileError if the table of utterances lacks rows that its summary counts, or has one twice."""
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
    """The decoder's config: files by their content, tuned values by how they were tuned, so that seeds are one arm."""
    files = {key: f"{file.name} {file.sha256[:8]}" for key, file in evaluation.files.items()}
    tuning = evaluation.tuning
    how = f"tuned on {tuning.set} in {tuning.trials} trials" if tuning else ""
    tuned = dict.fromkeys(tuning.chosen, how) if tuning else {}
    return {**evaluation.decoder, **files, **tuned}


def _labels(names: list[str], decoders: list[Config], stems: list[str]) -> list[str]:
    """Names of decoders, with their differences if names are equal; names of files if that does not tell them apart."""
    labels = []
    for name, decoder in zip(names, decoders, strict=True):
        same = [other for other, other_name in zip(decoders, names, strict=True) if other_name == name]
        varied = [key for key in decoder if len({str(other.get(key)) for other in same}) > 1]
        labels.append(slug("-".join([name, *(f"{key}-{decoder[key]}" for key in varied)])))
    return labels if len(set(labels)) == len(labels) else stems


GROWING = (layout.METRICS, layout.LOSSES, layout.TRANSCRIPTS)
"""Tables that are cut to what the checkpoint has seen: the last line of an interrupted run may be half a line."""


def damage(folder: Path) -> str | None:
    """Describe the damage of a run's files in one line; None for a whole run, and without a run.

    Raises UsageError if a file cannot be read now, as without permission: that says nothing about the file.
    """
    if not folder.is_dir():
        return None
    try:
        status = status_of(folder)
        if status is not None and fate(status, folder).state in RESULTS:
            read_run(folder)
            return None
        if not _has_begun(folder, status):
            return None
        for name, read in ((layout.CONFIG, read_config), (layout.ENVIRONMENT, read_environment)):
            if status is not None or (folder / name).exists():
                read(folder)
        for path in filter(Path.exists, (folder / name for name in GROWING)):
            with readable(path), path.open(newline="", encoding="utf-8") as file:
                list(csv.DictReader(file))
    except FileNotFoundError as error:
        return f"{folder}: {Path(str(error.filename)).name} is missing"
    except UsageError as error:
        if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
            raise
        return str(error)
    return None


def _has_begun(folder: Path, status: Status | None) -> bool:
    """Return whether the run itself has recorded anything: its launcher writes a status and perhaps a config."""
    names = [layout.ENVIRONMENT, layout.SUMMARY, layout.CHECKPOINTS, *GROWING]
    if status is None or status.pid is not None:
        names.append(layout.CONFIG)
    return any(os.path.lexists(folder / name) for name in names)
