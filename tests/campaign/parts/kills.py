"""Kills at random moments of a command's progress; the same command again must give what was never disturbed."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from signal import Signals

from tests.campaign.commands import adopt_orphans, environment, run_command
from tests.campaign.killing import EQUAL, NOT_KILLED, Killer, Moment, Undisturbed, drawn
from tests.campaign.part import Context, Report
from tests.campaign.victims import TRAIN, Victim, victims

NAME = "kills"
DESCRIPTION = "SIGKILL, SIGTERM and SIGINT at random moments; the same command again is bit-equal to the undisturbed"
CASES = 270


def run(context: Context) -> Report:
    """Each kind in turn. The folder of a case that failed is kept."""
    adopt_orphans()
    report = context.report("killed", "kills", "SIGKILL", "SIGTERM", "SIGINT", EQUAL, NOT_KILLED, "failed")
    tally: Counter[tuple[str, str]] = Counter()
    work = context.folder / "work"
    work.mkdir(parents=True)
    killer = Killer(work / "corpora")
    known: dict[str, Undisturbed] = {}
    kinds = victims(trained(work))
    try:
        for number, victim in context.while_time(cases(kinds), CASES):
            if victim.name not in known:
                known[victim.name] = killer.undisturbed(victim, work / f"undisturbed-{len(known)}")
            generator = random.Random(f"{context.seed}-{number}")
            moment = drawn(generator, number // len(kinds), known[victim.name])
            folder = work / f"case-{number}"
            outcome = killer.kill(victim, folder, moment, known[victim.name], generator)
            record(report, tally, number, victim, moment, outcome)
            if outcome in (EQUAL, NOT_KILLED):
                shutil.rmtree(folder)
            else:
                folder.rename(context.folder / folder.name)
    finally:
        add_rows(report, tally, [victim.name for victim in kinds])
        shutil.rmtree(work, ignore_errors=True)
    return report


def cases(kinds: list[Victim]) -> Iterator[tuple[int, Victim]]:
    for number in range(CASES):
        yield number, kinds[number % len(kinds)]


def trained(folder: Path) -> Path:
    """A finished run on the corpora in `folder`, which the others share."""
    outputs = folder / "trained"
    done = run_command(["src/train.py", *TRAIN, f"outputs={outputs}"], environment(folder / "corpora", folder))
    if done.code != 0:
        raise RuntimeError(f"the run that is to be decoded fails: {done.errors[-500:]}")
    (status,) = outputs.rglob("status.json")
    return status.parent


def record(
    report: Report, tally: Counter[tuple[str, str]], number: int, victim: Victim, moment: Moment, outcome: str
) -> None:
    """Count a case, and keep what it takes to draw it again."""
    kind = outcome if outcome in (EQUAL, NOT_KILLED) else "failed"
    tally[victim.name, kind] += 1
    report.count(kind)
    if outcome != NOT_KILLED:
        tally[victim.name, "kills"] += 1
        tally[victim.name, Signals(moment.signal).name] += 1
        report.count("kills")
    report.cases.append({"case": number, "victim": victim.name, "moment": str(moment), "outcome": outcome})
    if kind == "failed":
        report.failures.append(f"case-{number}, {victim.name}, {moment}: {outcome}")


def add_rows(report: Report, tally: Counter[tuple[str, str]], names: list[str]) -> None:
    for name in names:
        report.rows.append([name, *(str(tally[name, column]) for column in report.columns[1:])])
