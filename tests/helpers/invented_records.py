"""Records of runs with invented errors, in memory: what a comparison is made from, without folders."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from asr_verdicts.record import NO_SUMMARY, Environment, Record, Records, SetResult, Summary, Unfinished

SPEAKERS, UTTERANCES, WORDS = 20, 5, 20

Config = dict[str, Any]


def config(arm: str, seed: int, ablation: Config | None = None, **more: Any) -> Config:
    """arm: overrides of plain keys, as "rnn=gru norm=none"."""
    keys = dict(override.split("=") for override in arm.split())
    return {"seed": seed, "gpus": 0, **keys, "ablation": ablation, **more}


def record(arm: str, seed: int, rate: float, *, set_: str = "test", speakers: str = "s", **more: Any) -> Record:
    """A run of one test set whose every utterance has the same number of errors, rounded at random: about `rate`."""
    rng = np.random.default_rng([seed, int(1e6 * rate), sum(arm.encode())])
    utterances = []
    for number in range(SPEAKERS * UTTERANCES):
        wrong = int(rng.binomial(WORDS, min(1.0, rate)))
        utterances.append({
            "set": set_, "id": f"{speakers}{number:04d}", "speaker": f"{speakers}{number % SPEAKERS}",
            "reference": "a " * WORDS, "hypothesis": "x " * wrong + "a " * (WORDS - wrong), "words": WORDS,
            "substitutions": wrong, "deletions": 0, "insertions": 0, "characters": 2 * WORDS,
            "character_substitutions": wrong, "character_deletions": 0, "character_insertions": 0,
        })  # fmt: skip
    return finished(arm, seed, utterances, **more)


def finished(arm: str, seed: int, utterances: list[dict[str, Any]], **more: Any) -> Record:
    """A run with these rows of utterances.csv."""
    sets = {}
    for name in dict.fromkeys(row["set"] for row in utterances):
        rows = [row for row in utterances if row["set"] == name]
        words = sum(row["words"] for row in rows)
        sets[name] = SetResult(wer=sum(row["substitutions"] for row in rows) / words, words=words)
    name = f"{arm.replace(' ', '-')}-{seed}"
    return Record(
        folder=Path(name), config=config(arm, seed, **more), overrides=[*arm.split(), f"seed={seed}"],
        summary=Summary(id=name, sets=sets, test_sets=list(sets)), utterances=utterances,
        environment=Environment(id=name), model=f"{name}/last.ckpt",
    )  # fmt: skip


def diverged(arm: str, seed: int, **more: Any) -> Record:
    """A run whose loss was no number at step 12."""
    run = finished(arm, seed, [], **more)
    return replace(run, summary=NO_SUMMARY, diverged_at=12)


def absent(arm: str, seed: int, state: Any, reason: str = "", **more: Any) -> Unfinished:
    """A run without a result."""
    return Unfinished(Path(f"{arm}-{seed}"), state, reason or state, config(arm, seed, **more), arm.split())


def records(*groups: list[Record], unfinished: list[Unfinished] | None = None) -> Records:
    """All runs, the diverged ones in their own list."""
    runs = [run for group in groups for run in group]
    return Records(
        [run for run in runs if run.diverged_at is None],
        [run for run in runs if run.diverged_at is not None],
        unfinished or [],
    )
