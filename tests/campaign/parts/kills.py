"""Kills at random moments of a command's progress; the same command again must give what was never disturbed."""

import random
import shutil
from collections import Counter
from pathlib import Path
from signal import Signals

from tests.campaign.commands import adopt_orphans, environment, run_command
from tests.campaign.killing import EQUAL, NOT_KILLED, Killer, Undisturbed, drawn
from tests.campaign.part import Context, Report
from tests.campaign.typed import FAILED, Tried
from tests.campaign.victims import TRAIN, victims

NAME = "kills"
DESCRIPTION = "SIGKILL, SIGTERM and SIGINT at random moments; the same command again is bit-equal to the undisturbed"
CONTINUES = True
CASES = 270
SOUND = (EQUAL, NOT_KILLED)


def run(context: Context) -> Report:
    """Each kind in turn. The folder of a case that failed is kept."""
    adopt_orphans()
    report = context.report("killed", "cases", *SOUND, FAILED, "SIGKILL", "SIGTERM", "SIGINT")
    tried = Tried(context, report, SOUND)
    work = context.folder / "work"
    work.mkdir(parents=True)
    killer = Killer(work / "corpora")
    known: dict[str, Undisturbed] = {}
    kinds = victims(trained(work))
    try:
        for number in tried.left(range(CASES), str):
            victim = kinds[number % len(kinds)]
            if victim.name not in known:
                known[victim.name] = killer.undisturbed(victim, work / f"undisturbed-{len(known)}")
            generator = random.Random(f"{context.seed}-{number}")
            moment = drawn(generator, number // len(kinds), known[victim.name])
            folder = work / f"case-{number}"
            ended = killer.kill(victim, folder, moment, known[victim.name], generator)
            outcome = ended if ended in SOUND else FAILED
            name = Signals(moment.signal).name
            tried.add(str(number), victim.name, outcome, f"{victim.name}, {moment}: {ended}", signal=name)
            if outcome in SOUND:
                shutil.rmtree(folder)
            else:
                folder.rename(context.folder / folder.name)
    finally:
        tried.close((*SOUND, FAILED))
        for row in report.rows:
            signals = Counter(case["signal"] for case in tried.of(row[0]) if case["outcome"] != NOT_KILLED)
            row += [str(signals[name]) for name in report.columns[-3:]]
        report.count("kills", sum(case["outcome"] != NOT_KILLED for case in report.cases))
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
