"""Survival at every boundary of steps, epochs and validations, for everything that keeps a state while it trains."""

import random
import shutil
import signal
from collections import Counter
from pathlib import Path

from asr_verdicts.files import slug
from tests.campaign.input_places import SPLITS
from tests.campaign.part import Context, Report
from tests.campaign.trainings import Boundary, boundaries, printed, train
from tests.campaign.victims import half_files
from tests.conftest import write_split
from tests.helpers.command import run_folders
from tests.helpers.run_results import results, same
from tests.helpers.support import group_options

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
                tally[group(option), "options"] += 1
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


def group(option: str) -> str:
    return option.partition("=")[0]


def overrides(option: str) -> list[str]:
    return [option, *(NEEDS.get(option) or [])] if option else []


def shuffled(moments: list[tuple[str, int]], seed: int) -> list[Case]:
    options = [f"{name}={option}" for name in STATEFUL for option in group_options(name)]
    options = [option for option in options if NEEDS.get(option, []) is not None]
    cases = [(option, moment, stop) for option in options for moment in moments for stop in SIGNALS]
    random.Random(seed).shuffle(cases)
    return cases


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
        tally[group(option), column] += 1
    for count in ("stopped", kind):
        report.count(count)
    moment = f"{stop.name} at {hook} {call}"
    report.cases.append({"case": number, "option": option, "moment": moment, "outcome": outcome})
    if kind == "failed":
        report.failures.append(f"case-{number}, {option}, {moment}: {outcome}")
