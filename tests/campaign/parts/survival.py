"""Survival at every boundary of steps, epochs and validations, for everything that keeps a state while it trains."""

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytorch_lightning as pl

from asr_ablations.experiment import fit
from asr_ablations.sweep.processes import PRELOAD
from asr_ablations.tools.errors import Stopped
from asr_verdicts.files import slug
from tests.campaign.commands import PATIENCE
from tests.campaign.input_places import SPLITS
from tests.campaign.part import Context, Report
from tests.campaign.victims import half_files
from tests.conftest import write_split
from tests.helpers.command import run_folders
from tests.helpers.run_results import results, same
from tests.helpers.run_results import train as train_in_process
from tests.helpers.support import compose, group_options, tiny_overrides

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
        train_in_process(cfg)
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


NAME = "survival"
DESCRIPTION = "a training that is stopped or killed at a boundary, and resumed, is bit-equal to the unbroken one"
STATEFUL = ("averaging", "gradient", "pretrain", "schedule", "optimizer", "order", "augment", "rnn", "norm", "cache")
"""Groups whose options keep a state, draw at random, or decide what is read when."""
NEEDS = {
    "augment=noise": None,  # a folder of recordings
    "norm=batch_synchronised": None,  # several GPUs
    "gradient=outliers": ["gradient.warm_up=1"],
    "schedule=newbob": ["schedule.threshold=0.9"],
}
"""What an option needs to be at work in two epochs; None for those that these trainings cannot have."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
EQUAL = "bit-equal"
Case = tuple[str, tuple[str, int], signal.Signals]


def run(context: Context) -> Report:
    """Every option, boundary and signal in a random order. The folder of a case that failed is kept."""
    report = context.report("group", "options", "stopped", *(number.name for number in SIGNALS), EQUAL, "failed")
    work = context.folder / "work"
    corpus = work / "tones"
    for split, (speakers, utterances, first) in SPLITS.items():
        write_split(corpus / split, speakers, utterances, first)
    undisturbed(corpus, work / "first", "")
    cases = shuffled(boundaries(work / "first"), context.seed)  # which the options change none of
    unbroken: dict[str, object] = {}
    tally: Counter[tuple[str, str]] = Counter()
    try:
        for number, (option, moment, stop) in enumerate(context.while_time(cases, len(cases))):
            if option not in unbroken:
                unbroken[option] = undisturbed(corpus, work / slug(option), option)
                tally[option.partition("=")[0], "options"] += 1
            folder = work / f"case-{number}"
            outcome = broken(corpus, folder, option, Boundary(*moment, stop), unbroken[option])
            record(report, tally, number, (option, moment, stop), outcome)
            if outcome == EQUAL:
                shutil.rmtree(folder)
            else:
                folder.rename(context.folder / folder.name)
    finally:
        for name in STATEFUL:
            report.rows.append([name, *(str(tally[name, column]) for column in report.columns[1:])])
        shutil.rmtree(work, ignore_errors=True)
    return report


def shuffled(moments: list[tuple[str, int]], seed: int) -> list[Case]:
    options = [f"{name}={option}" for name in STATEFUL for option in group_options(name)]
    options = [option for option in options if NEEDS.get(option, []) is not None]
    cases = [(option, moment, stop) for option in options for moment in moments for stop in SIGNALS]
    random.Random(seed).shuffle(cases)
    return cases


def overrides(option: str) -> list[str]:
    return [option, *(NEEDS.get(option) or [])] if option else []


def undisturbed(corpus: Path, folder: Path, option: str) -> object:
    """Raises RuntimeError where the training fails by itself."""
    if (code := train(corpus, folder, overrides(option))) != 0:
        raise RuntimeError(f"{option or 'a training'} fails undisturbed, exit code {code}: {printed(folder)}")
    return only_results(folder)


def broken(corpus: Path, folder: Path, option: str, boundary: Boundary, expected: object) -> str:
    """The outcome of a training that gets a signal and is started again: EQUAL, or what was wrong."""
    code = train(corpus, folder, overrides(option), boundary)
    if code not in (-boundary.signal, 128 + boundary.signal, 0):
        return "hang" if code is None else f"exit code {code}: {printed(folder)}"
    if damaged := half_files(folder):
        return f"half files: {', '.join(damaged)}"
    if (code := train(corpus, folder, overrides(option))) != 0:
        return f"resumed: exit code {code}: {printed(folder)}"
    return EQUAL if same(only_results(folder), expected) else "another result"


def only_results(outputs: Path) -> object:
    (folder,) = run_folders(outputs)
    return results(folder)


def record(report: Report, tally: Counter[tuple[str, str]], number: int, case: Case, outcome: str) -> None:
    """Count a case, and keep what it takes to repeat it."""
    option, (hook, call), stop = case
    kind = EQUAL if outcome == EQUAL else "failed"
    for column in ("stopped", stop.name, kind):
        tally[option.partition("=")[0], column] += 1
    for count in ("stopped", kind):
        report.count(count)
    moment = f"{stop.name} at {hook} {call}"
    report.cases.append({"case": number, "option": option, "moment": moment, "outcome": outcome})
    if kind == "failed":
        report.failures.append(f"case-{number}, {option}, {moment}: {outcome}")
