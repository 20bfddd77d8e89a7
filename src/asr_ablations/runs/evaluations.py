"""Evaluations of a run as runs of their own: the same training, another decoder."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import slug

FOLDER = "evaluations"


def read_evaluations(
    folder: Path, read_run: Callable[[Path], RunRecord], read_rows: Callable[[Path], Iterable[dict[str, Any]]]
) -> list[RunRecord]:
    """The records of <run>/evaluations, each with the decoder in the config's place and the evaluation's sets and
    utterances; no curves, since all share one training. Raises UsageError where there is none.
    """
    files = sorted(folder.glob("*.json"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    if not files:
        raise UsageError(f"{folder}: holds no evaluations; python src/evaluate.py run={folder.parent} makes them")
    run = read_run(folder.parent)
    told = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    labels = _labels([one["name"] for one in told], [_decoder(one) for one in told], [file.stem for file in files])
    return [
        _record(file, one, label, run, list(read_rows(file.with_suffix(".utterances.csv"))))
        for file, one, label in zip(files, told, labels, strict=True)
    ]


def _decoder(told: dict[str, Any]) -> dict[str, Any]:
    """The decoder's config: of files what they are, not where; of tuned values how they were found, so that seeds that
    were tuned alike are one arm.
    """
    files = {key: f"{of['name']} {of['sha256'][:8]}" for key, of in told["files"].items()}
    tuning = told["tuning"]
    how = f"tuned on {tuning['set']} in {tuning['trials']} trials" if tuning else ""
    tuned = dict.fromkeys(tuning["chosen"], how) if tuning else {}
    return {**told["decoder"], **files, **tuned}


def _labels(names: list[str], decoders: list[dict[str, Any]], stems: list[str]) -> list[str]:
    """Names, of several decoders of one name with what they differ in; their files' where that does not tell."""
    labels = []
    for name, decoder in zip(names, decoders, strict=True):
        same = [other for other, theirs in zip(decoders, names, strict=True) if theirs == name]
        varied = [key for key in decoder if len({str(other.get(key)) for other in same}) > 1]
        labels.append(slug("-".join([name, *(f"{key}-{decoder[key]}" for key in varied)])))
    return labels if len(set(labels)) == len(labels) else stems


def _record(file: Path, told: dict[str, Any], label: str, run: RunRecord, rows: list[dict[str, Any]]) -> RunRecord:
    others = [line for line in run.overrides if not line.lstrip("+~").startswith("decoder")]
    return replace(
        run,
        folder=file.with_suffix(""),
        config={**run.config, "decoder": _decoder(told), "checkpoint": told["checkpoint"]},
        overrides=[*others, f"decoder={label}"],
        summary={**run.summary, "sets": told["sets"], "test_sets": told["test_sets"]},
        metrics=[],
        utterances=rows,
    )
