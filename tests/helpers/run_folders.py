"""Writes run folders as a run does, with invented results: the real config and record, no training."""

import functools
import importlib.metadata
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from omegaconf import OmegaConf

from asr_ablations.data.utterances import Utterance
from asr_ablations.experiment.utterances import utterance_row
from asr_ablations.runs import environment
from asr_ablations.runs.folder import Run
from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.files import write_csv, write_json
from asr_verdicts.record import Code, rates
from tests.helpers.support import compose

WORDS = ("a", "bad", "cab", "dad", "had", "bed", "faded", "bee")
SPEAKERS, UTTERANCES = 12, 6
NATS = 4.0
"""The loss of an invented run: so many nats for a WER of 100 %."""

version = functools.cache(importlib.metadata.version)
Row = dict[str, Any]


def utterances(name: str, rate: float, seed: int, speakers: int = SPEAKERS, each: int = UTTERANCES) -> list[Row]:
    """Rows of utterances.csv: the same references for all runs, words substituted at about the rate."""
    texts, noise = np.random.default_rng(0), np.random.default_rng(seed)
    rows = []
    for speaker in range(speakers):
        for number in range(each):
            reference = texts.choice(WORDS, size=8).tolist()
            wrong = noise.random(8) < rate
            hypothesis = ["x" if bad else word for word, bad in zip(reference, wrong, strict=True)]
            id_ = f"{speaker}-1-{number:04d}"
            spoken = Utterance(id_, str(speaker), Path("not-there.flac"), 0.0, 1.0, " ".join(reference))
            rows.append(utterance_row(name, spoken, spoken.text, " ".join(hypothesis)))
    return rows


def metrics(curve: list[float], seconds: float | None = 10.0, steps: int = 5) -> list[Row]:
    """Rows of metrics.csv: a loss and a validation per epoch; seconds: between validations, and of training
    in the first epoch, 0.8 times as many in others; None for a record without times.
    """
    rows: list[Row] = []
    times = ["time/seconds", "time/audio_hours", "train/epoch_seconds"] if seconds else []
    keys = ["epoch", "step", "train/loss_epoch", *(f"validation/dev/{key}" for key in FIGURES), *times]
    for epoch, value in enumerate(curve):
        spent = dict(zip(times, ((seconds or 0) * (epoch + 1), 0.5 * (epoch + 1)), strict=False))
        validated = {"wer": value, "cer": value / 3, "cer_longer": value / 3, "loss": NATS * value}
        trained = {"train/loss_epoch": 5 * value, "train/epoch_seconds": (1 if epoch == 0 else 0.8) * (seconds or 0)}
        for row in ({f"validation/dev/{key}": figure for key, figure in validated.items()} | spent, trained):
            row |= {"epoch": epoch, "step": steps * (epoch + 1) - 1}
            rows.append({key: row.get(key, "") for key in keys})
    return rows


def write_run(
    outputs: Path,
    *overrides: str,
    rate: float = 0.2,
    noise: int = 0,
    ablation: dict[str, Any] | None = None,
    sweep: str = "sweep",
    curve: list[float] | None = None,
    status: str = "done",
    change: Callable[[Path], None] | None = None,
    seconds: float | None = 10.0,
    behaviour: int | None = None,
) -> Path:
    """One run's folder; `noise` draws its errors, `change` edits it afterwards; behaviour: the code's version."""
    data = ["data=an4", "data.root=/somewhere"]
    cfg = compose(*data, *overrides)
    OmegaConf.update(cfg, "ablation", ablation, force_add=True)
    cfg.overrides, cfg.outputs, cfg.sweep = [*data, *overrides], str(outputs), sweep
    run = Run(cfg)
    run.keep_previous()  # as force=true does
    # git and the packages' metadata would take most of the time
    code = Code(commit="0123456789abcdef", dirty_diff="")
    with mock.patch.multiple(environment, code=lambda: code, version=version), run:
        pass
    rows = utterances("dev", rate, 1000 + noise) + utterances("test", rate, noise)
    curve = curve or [0.9, 0.5, 0.3, 0.25, rate]
    write_csv(run.folder / "utterances.csv", rows)
    write_csv(run.folder / "metrics.csv", metrics(curve, seconds))
    sets = {name: as_json(rates([row for row in rows if row["set"] == name])) for name in ("dev", "test")}
    for figures in sets.values():
        figures["loss"] = NATS * figures["wer"]
    write_json(
        run.folder / "summary.json",
        {
            "id": run.id, "name": run.name, "sets": sets, "test_sets": ["test"], "best_validation_wer": min(curve),
            "metrics": {}, "parameters": 1000, "epochs": len(curve), "steps": 5 * len(curve),
            "audio_hours_seen": 0.5 * len(curve), "audio_hours_per_second": 0.05,
            "seconds": {"train": 10.0 * len(curve), "evaluate": 1.0},
        },
    )  # fmt: skip
    told = {name: {"utterances": 72, "sha256": f"{name}-hash"} for name in ("train", "dev", "test")}
    write_json(run.folder / "data.json", {"sets": told, "left_out_of_training": [], "alphabet": "ab "})
    failed = {"status": status, "reason": "out of memory", "pid": 2**22 + 7} if status != "done" else {}
    other = {} if behaviour is None else {"behaviour": behaviour}
    for path, changes in ((run.folder / "environment.json", other), (run.folder / "status.json", failed)):
        write_json(path, {**json.loads(path.read_text()), **changes})
    if change:
        change(run.folder)
    return run.folder


def write_evaluation(
    run: Path, name: str, rows: list[Row], ablation: dict[str, Any] | None = None, **decoder: Any
) -> None:
    """The evaluation of a run by the decoder `name` with these keys; rows: what it recognised of the set test."""
    folder = run / "evaluations"
    folder.mkdir(exist_ok=True)
    stem = "-".join([name, *map(str, decoder.values())])
    write_csv(folder / f"{stem}.utterances.csv", rows)
    decoder = {"name": name, "decoder": {"name": name, **decoder}, "checkpoint": "last.ckpt"}
    results = {"sets": {"test": as_json(rates(rows))}, "test_sets": ["test"], "ablation": ablation}
    write_json(folder / f"{stem}.json", {**decoder, "files": {}, "tuning": None, **results})


def write_sweep(
    outputs: Path, rates_by_choice: dict[str, float], seeds: int = 3, declared: bool = True, **more: Any
) -> Path:
    """Runs of every choice (overrides, separated by spaces) with so many seeds; the sweep's folder. declared: its first
    launch named all of them.
    """
    for number, (choice, seed) in enumerate(itertools.product(rates_by_choice, range(seeds)), start=1):
        write_run(outputs, *choice.split(), f"seed={seed}", rate=rates_by_choice[choice], noise=number, **more)
    sweep: Path = outputs / more.get("sweep", "sweep")
    if declared:
        declare(sweep)
    return sweep


def declare(sweep: Path, *launches: list[Path], search: bool = False) -> None:
    """The manifest of a sweep whose launches named these runs; by default one launch named all that there are."""
    named = launches or [[path.parent for path in sorted(sweep.glob("*/status.json"))]]
    ids = [[json.loads((run / "environment.json").read_text())["id"] for run in launch] for launch in named]
    rows = [
        {"started": f"2026-01-0{number}T00:00:00Z", "command": [], "arms": arms, "search": search}
        for number, arms in enumerate(ids, start=1)
    ]
    write_json(sweep / "sweep.json", {"launches": rows, "arms": []})


def edit(path: Path, pattern: str, replacement: str) -> None:
    """Change a file of a record."""
    text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
    assert count, f"{pattern} is not in {path}"
    path.write_text(text, encoding="utf-8")
