"""Trainings on the corpus of tones, each in a process forked from one that has torch loaded, stopped at a boundary."""

import contextlib
import json
import multiprocessing
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytorch_lightning as pl

from asr_ablations.experiment import fit
from asr_ablations.sweep.processes import PRELOAD
from asr_ablations.tools.errors import Stopped
from tests.campaign.commands import PATIENCE
from tests.helpers.run_results import train as train_here
from tests.helpers.support import compose, tiny_overrides

SMALL = ["width=8", "layers=2", "gpus=0", "logger=csv", "max_epochs=2", "threads=1", "progress=false", "sweep=s"]
"""Two epochs of three batches."""
HOOKS = (
    *("on_train_start", "on_train_epoch_start", "on_train_batch_start", "on_train_batch_end", "on_train_epoch_end"),
    *("on_validation_start", "on_validation_batch_end", "on_validation_end", "on_train_end"),
)
"""Lightning's names for the boundaries of steps, epochs and validations."""
CALLS = "calls.json"


class Boundary(NamedTuple):
    """The n-th time that training passes a boundary, from 1, where it gets a signal."""

    hook: str
    call: int
    signal: int


class AtBoundaries(pl.Callback):
    """Counts how often each boundary is passed, and sends this process a signal at one of them."""

    def __init__(self, boundary: Boundary | None) -> None:
        self.calls: Counter[str] = Counter()
        for hook in HOOKS:
            setattr(self, hook, partial(self._passed, hook, boundary))

    def _passed(self, hook: str, boundary: Boundary | None, *_: object, **__: object) -> None:
        self.calls[hook] += 1
        if boundary is not None and (hook, self.calls[hook]) == boundary[:2]:
            os.kill(os.getpid(), boundary.signal)


def train(corpus: Path, outputs: Path, overrides: list[str], boundary: Boundary | None = None) -> int | None:
    """The exit code of a training: negative after a signal, 128 + the signal where it stopped in order; None for one
    that hung, and was killed.
    """
    outputs.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([name for name in PRELOAD if "wandb" not in name])
    process = context.Process(target=_train, args=(corpus, outputs, overrides, boundary))
    process.start()
    process.join(PATIENCE)
    if (code := process.exitcode) is None:
        process.kill()
        process.join()
    return code


def _train(corpus: Path, outputs: Path, overrides: list[str], boundary: Boundary | None) -> None:
    with (outputs / "printed").open("a", buffering=1) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # caches, and what is remembered of audio files, are the case's own
    os.environ.update(ASR_ABLATIONS_DATA=str(outputs / "corpora"), ASR_ABLATIONS_INDEX=str(outputs / "index"))
    at_boundaries = AtBoundaries(boundary)
    trainer = fit.trainer
    fit.trainer = lambda cfg, devices, loggers, callbacks, **options: trainer(
        cfg, devices, loggers, [*callbacks, at_boundaries], **options
    )
    cfg = compose(*tiny_overrides(corpus), *SMALL, f"outputs={outputs}", *overrides)
    try:
        train_here(cfg)
    except Stopped as stopped:
        sys.exit(128 + stopped.signal_number)
    if boundary is None:
        (outputs / CALLS).write_text(json.dumps(at_boundaries.calls))


def boundaries(outputs: Path) -> list[tuple[str, int]]:
    """Every boundary that an undisturbed training passed, as (hook, n)."""
    calls = json.loads((outputs / CALLS).read_text())
    return [(hook, number) for hook in HOOKS for number in range(1, calls.get(hook, 0) + 1)]


def printed(outputs: Path) -> str:
    """The last line that the training printed."""
    with contextlib.suppress(OSError, IndexError):
        return (outputs / "printed").read_text(errors="replace").strip().splitlines()[-1][-300:]
    return ""
