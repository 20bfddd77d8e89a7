"""Load run folders as records for comparisons, and find damaged or edited files."""

import csv
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from rich.progress import track

from asr_ablations.runs import layout
from asr_ablations.runs.identity import BEHAVIOUR, identity_of
from asr_ablations.runs.reader import (
    EvaluationRecord,
    Seeded,
    Status,
    UnreadableFileError,
    read_config,
    read_data,
    read_environment,
    read_losses,
    read_metrics,
    read_model,
    read_overrides,
    read_record,
    read_recorded,
    read_summary,
    read_utterances,
    readable,
    recorded_id,
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

EDITED = "config.yaml was changed after the run: its hash differs from the id in environment.json"
RENAMED = "the overrides file differs from the overrides in config.yaml, so the arm may have the wrong name"


def list_edits(run: Record) -> list[str]:
    """Return a warning for each run file that was edited after the run. Evaluations are not checked."""
    if run.folder.parent.name == layout.EVALUATIONS:
        return []
    lines, recorded = [], run.environment
    if recorded.id and recorded.data_fingerprint is not None and recorded.behaviour == BEHAVIOUR:
        lines += [EDITED] if identity_of(determining(run.config), recorded.data_fingerprint) != recorded.id else []
    typed = run.config.get("overrides")  # split like the overrides file: a value may contain line breaks
    if typed is not None and [line for word in typed for line in word.split("\n") if line] != run.overrides:
        lines.append(RENAMED)
    return lines


CHANGED = "{} of {} changed in the sweep file after the first runs: choices made after seeing results are exploratory"
DECIDING = ("factor", "baseline", "set", "metric", "contrasts", "scale", "margin", "failed", "claim", "expected")
"""Keys of the config group `ablation` that affect verdicts."""

T = TypeVar("T")


def load(folders: Sequence[Path]) -> Records:
    """Load all runs from run, sweep or evaluation folders. Raises UsageError if a folder holds no runs.

    Runs whose results cannot be read are listed as unfinished, with the state "damaged".
    """
    records: dict[Path, Record] = {}
    unfinished: dict[Path, Unfinished] = {}
    paths: list[Path] = []
    for folder in folders:
        if folder.name == layout.EVALUATIONS:
            records |= {run.folder: run for run in read_evaluations(folder, read_run(folder.parent))}
        else:
            paths += find_run_folders(folder)
    manifest = cache(_Manifest)  # reads each manifest once, because a search may have hundreds of arms
    changed: dict[str, set[str]] = {}
    terminal = console(stderr=True)
    for path in track(paths, "reading runs", console=terminal, transient=True, disable=not terminal.is_terminal):
        place, ended = path.resolve(), fate_of(path)
        if place in records or place in unfinished:
            continue
        if ended.state != "done" and ended.state != "diverged":
            unfinished[place] = _describe_unfinished(place, ended.state, ended.reason)
            continue
        try:
            run = _read(path, ended, manifest(place.parent))
        except UsageError as error:
            unfinished[place] = _describe_unfinished(place, "damaged", f"damaged: {error}".replace(f"{path}/", ""))
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
    """Load one finished or diverged run. Raises UsageError if a file is missing or damaged."""
    return _read(folder, fate_of(folder), _Manifest(folder.resolve().parent))


class _Manifest:
    """From a sweep's manifest: ids of runs proposed by a search, each run's position, and the newest declaration."""

    def __init__(self, sweep: Path) -> None:
        self.searched, self.places, self.declared = searched_arms(sweep), places(sweep), newest_declaration(sweep)


def _read(folder: Path, ended: Fate, manifest: _Manifest) -> Record:
    """Load a finished or diverged run. A diverged run may lack a summary, metrics and utterances."""
    diverged = ended.state == "diverged"
    try:
        config, overrides, environment = read_config(folder), read_overrides(folder), read_environment(folder)
        if folder.is_symlink():  # a link to a run in another sweep, whose config may declare a different ablation
            with suppress(FileNotFoundError, UnreadableFileError):
                config = read_recorded(layout.frozen_config(folder))
            overrides = [str(line) for line in config.get("overrides") or overrides]
        summary = _read_if_present(read_summary, folder, NO_SUMMARY) if diverged else read_summary(folder)
        id_ = summary.id or environment.id or ""
        utterances = [] if diverged else _read_all_utterances(folder / layout.UTTERANCES, summary.sets)
        read_model(folder)  # only checks that model.txt and losses.csv are readable; figures use them later
        read_losses(folder)
        return Record(
            folder=folder,
            config=config,
            overrides=overrides,
            summary=summary,
            metrics=_read_if_present(read_metrics, folder, []) if diverged else read_metrics(folder),
            utterances=utterances,
            environment=environment,
            data=_read_if_present(read_data, folder, DataRecord()),
            model=f"{id_}/{layout.LAST}" if id_ else "",
            searched=id_ in manifest.searched,
            diverged_at=ended.diverged_at,
            place=manifest.places.get(id_),
        )
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise UsageError(f"{folder}: its status is {ended.state}, but {missing} is missing") from error


def _read_if_present(read: Callable[[Path], T], folder: Path, otherwise: T) -> T:
    try:
        return read(folder)
    except FileNotFoundError:
        return otherwise


def _describe_unfinished(folder: Path, state: UnfinishedState, reason: str) -> Unfinished:
    """Describe an unfinished run, with its config if config.yaml or the arm's frozen config can be read."""
    for path in (folder / layout.CONFIG, layout.frozen_config(folder)):
        try:
            config = read_recorded(path, Seeded)
        except (FileNotFoundError, UnreadableFileError):
            continue
        return Unfinished(folder, state, reason, config, config.get("overrides", []))
    return Unfinished(folder, state, reason)


def find_run_folders(folder: Path) -> list[Path]:
    """Return a run folder, or the folders of a sweep's runs, including arms that have not started."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; expected a sweep folder or a run folder")
    if layout.is_run(folder):
        return [folder]
    begun = {path.parent for path in folder.glob(f"*/{layout.CONFIG}")}  # including runs without status.json
    children = {path for path in {*layout.runs_in(folder), *begun} if not layout.KEPT_ASIDE.search(path.name)}
    frozen = [folder / path.stem for path in (folder / layout.ARMS).glob("*.yaml")]  # including arms not yet started
    if not children and not frozen:
        raise UsageError(f"{folder}: holds no runs; expected a sweep folder, or a run folder with {layout.STATUS}")
    # the same run id may occur twice, because a later launch that varies more keys names the run folder differently
    by_id = {recorded_id(path): path for path in [*sorted(frozen), *children]}
    return sorted({*children, *by_id.values()})


def utterances_of(file: Path) -> Path:
    """Return the path of the utterance table next to an evaluation's <name>.json."""
    return file.with_suffix(".utterances.csv")


def read_evaluations(folder: Path, run: Record) -> list[Record]:
    """Load a run's evaluations as copies of `run`, each with its own decoder, test sets and utterances."""
    results = [file for file in folder.glob("*.json") if file.name != layout.LOOKS]
    files = sorted(results, key=lambda file: (file.stat().st_mtime_ns, file.name))
    if not files:
        command = typed("evaluate", format_override("run", folder.parent))
        raise UsageError(f"{folder}: holds no evaluations; create one: {command}")
    evaluations = [read_record(file, EvaluationRecord) for file in files]
    decoders = [_describe_decoder(evaluation) for evaluation in evaluations]
    first = evaluations[0].ablation
    ablation = first if all(evaluation.ablation == first for evaluation in evaluations) else None
    id_ = run.model.partition("/")[0]
    others = [line for line in run.overrides if not line.lstrip("+~").startswith("decoder")]
    records = [
        replace(
            run,
            folder=file.with_suffix(""),
            config={
                **run.config,
                "ablation": ablation,
                "decoder": decoder,
                "checkpoint": evaluation.checkpoint,
                **({"condition": evaluation.condition} if evaluation.condition else {}),
                **({"corpora": evaluation.corpora} if evaluation.corpora else {}),
            },
            summary=replace(run.summary, sets=evaluation.sets, test_sets=evaluation.test_sets),
            metrics=[],
            utterances=_read_all_utterances(utterances_of(file), evaluation.sets),
            model=f"{id_}/{evaluation.checkpoint}" if id_ else "",
        )
        for file, evaluation, decoder in zip(files, evaluations, decoders, strict=True)
    ]
    joined = _join_sets(records)
    names = {file.stem: evaluation.name for file, evaluation in zip(files, evaluations, strict=True)}
    stems = [record.folder.name for record in joined]
    labels = _label([names[stem] for stem in stems], [record.config["decoder"] for record in joined], stems)
    return [
        replace(record, overrides=[*others, f"decoder={label}"]) for record, label in zip(joined, labels, strict=True)
    ]


def _join_sets(evaluations: Sequence[Record]) -> list[Record]:
    """Merge evaluations of the same decoder on different test sets into one record.

    Evaluations stay separate if they share a test set, or if conditions or corpora of the same name differ.
    """
    joined: list[Record] = []
    for new in evaluations:
        for place, old in enumerate(joined):
            alike = all(old.config.get(key) == new.config.get(key) for key in ("decoder", "checkpoint", "ablation"))
            merged = {key: _merge(old.config.get(key), new.config.get(key)) for key in ("condition", "corpora")}
            if alike and None not in merged.values() and old.summary.sets.keys().isdisjoint(new.summary.sets):
                sets, tests = {**old.summary.sets, **new.summary.sets}, [*old.summary.test_sets, *new.summary.test_sets]
                joined[place] = replace(
                    old,
                    config={**old.config, **{key: value for key, value in merged.items() if value}},
                    summary=replace(old.summary, sets=sets, test_sets=tests),
                    utterances=[*old.utterances, *new.utterances],
                )
                break
        else:
            joined.append(new)
    return joined


def _merge(first: Config | None, second: Config | None) -> Config | None:
    """Merge two configs; return None if they contain different values for the same key."""
    one, other = first or {}, second or {}
    return None if any(one[key] != other[key] for key in one.keys() & other.keys()) else {**one, **other}


def _read_all_utterances(path: Path, sets: Mapping[str, SetResult]) -> list[UtteranceRow]:
    """Read an utterance table. Raises UnreadableFileError if rows are repeated or their number is wrong."""
    utterances = read_utterances(path)
    for name, result in sets.items():
        rows, expected = [row["id"] for row in utterances if row["set"] == name], result.utterances
        if expected is not None and len(rows) != expected:
            raise UnreadableFileError(path, f"it has {len(rows)} rows of {name}, but the summary counts {expected}")
        if len({*rows}) != len(rows):
            raise UnreadableFileError(path, f"it contains utterances of {name} twice")
    return utterances


def _describe_decoder(evaluation: EvaluationRecord) -> Config:
    """Return the decoder's config with file hashes in place of paths, and a note in place of tuned values."""
    files = {key: f"{file['name']} {file['sha256'][:8]}" for key, file in evaluation.files.items()}
    if (tuning := evaluation.tuning) is None:
        return {**evaluation.decoder, **files}
    how = f"tuned on {tuning['set']} in {tuning['trials']} trials"  # this note is equal for all seeds of an arm
    return {**evaluation.decoder, **files, **dict.fromkeys(tuning["chosen"], how)}


def _label(names: list[str], decoders: list[Config], stems: list[str]) -> list[str]:
    """Return a distinct label for each decoder: its name and the values that distinguish it, or else its file name."""
    labels = []
    for name, decoder in zip(names, decoders, strict=True):
        same = [other for other, other_name in zip(decoders, names, strict=True) if other_name == name]
        varied = [key for key in decoder if len({str(other.get(key)) for other in same}) > 1]
        labels.append(slug("-".join([name, *(f"{key}-{decoder[key]}" for key in varied)])))
    return labels if len(set(labels)) == len(labels) else stems


GROWING = (layout.METRICS, layout.LOSSES, layout.TRANSCRIPTS)
"""Tables whose last line may be incomplete after an interruption. A resumed run truncates them to its checkpoint."""


def damage(folder: Path) -> str | None:
    """Describe the damage to a run's files in one line; None for an intact or missing run.

    Raises UsageError if a file cannot be read at the moment, for example for lack of permission, but may be intact.
    """
    try:
        status = status_of(folder)
        if status is not None and fate(status, folder).state in RESULTS:
            read_run(folder)
        elif _has_begun(folder, status):
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
    """Return whether the run's own process has written files. A launcher writes only a status and perhaps a config."""
    names = [layout.ENVIRONMENT, layout.SUMMARY, layout.CHECKPOINTS, *GROWING]
    if status is None or status.pid is not None:
        names.append(layout.CONFIG)
    return any(os.path.lexists(folder / name) for name in names)
