"""Kills at random moments of a command's progress; the same command again must give what was never disturbed."""

import random
import shutil
from collections import Counter
from pathlib import Path

from tests.campaign.commands import adopt_orphans, environment, run_command
from tests.campaign.killing import EQUAL, NOT_KILLED, Undisturbed, drawn, kill, undisturbed
from tests.campaign.part import Context, Report
from tests.campaign.victims import TRAIN, victims

NAME = "kills"
DESCRIPTION = "SIGKILL, SIGTERM and SIGINT at random moments; the same command again is bit-equal to the undisturbed"
CASES = 270
COLUMNS = (EQUAL, NOT_KILLED, "failed", "SIGKILL", "SIGTERM", "SIGINT")


def run(context: Context) -> Report:
    """Each kind in turn. The folder of a case that failed is kept."""
    adopt_orphans()
    report = context.report("killed", "cases", *COLUMNS)
    work = context.folder / "work"
    work.mkdir(parents=True)
    known: dict[str, Undisturbed] = {}
    tally: dict[str, Counter[str]] = {}
    kinds = victims(trained(work))
    try:
        for number in context.while_time(range(CASES), CASES):
            victim = kinds[number % len(kinds)]
            if victim.name not in known:
                known[victim.name] = undisturbed(victim, work / f"undisturbed-{len(known)}", work / "corpora")
            generator = random.Random(f"{context.seed}-{number}")
            moment = drawn(generator, number // len(kinds), known[victim.name])
            folder = work / f"case-{number}"
            ended = kill(victim, folder, work / "corpora", moment, known[victim.name], generator)
            outcome = ended if ended in (EQUAL, NOT_KILLED) else "failed"
            tally.setdefault(victim.name, Counter()).update((outcome, moment.signal.name))
            report.count(outcome)
            if outcome == "failed":
                report.failures.append(f"case-{number}, {victim.name}, {moment}: {ended}")
                folder.rename(context.folder / folder.name)
            else:
                shutil.rmtree(folder)
    finally:
        for name, counts in tally.items():
            cases = sum(counts[column] for column in COLUMNS[:3])
            report.rows.append([name, str(cases), *(str(counts[column]) for column in COLUMNS)])
        shutil.rmtree(work, ignore_errors=True)
    return report


def trained(folder: Path) -> Path:
    """A finished run on the corpora in `folder`, which the others share."""
    outputs = folder / "trained"
    done = run_command(["src/train.py", *TRAIN, f"outputs={outputs}"], environment(folder / "corpora", folder))
    if done.code != 0:
        raise RuntimeError(f"the run that is to be decoded fails: {done.errors[-500:]}")
    (status,) = outputs.rglob("status.json")
    return status.parent
