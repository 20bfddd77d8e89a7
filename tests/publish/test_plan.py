"""The plan of the answers is older than the runs that it plans."""

import json
import re
import subprocess
import tarfile
from datetime import datetime, timedelta, timezone

from asr_ablations.tools.files import REPOSITORY

FIRST_SEED = 700


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_every_run_began_after_the_plan_was_committed() -> None:
    plan = REPOSITORY / "sweeps" / "answers.sh"
    (stated,) = re.findall(r"^# The third plan, of (.* UTC), committed", plan.read_text(encoding="utf-8"), re.M)
    planned = datetime.strptime(stated, "%d %B %Y, %H:%M UTC").replace(tzinfo=timezone.utc)
    begun = {}  # when each run began that the plan covers, by sweep and run
    for record in sorted((REPOSITORY / "sweeps" / "records").glob("*.tar.xz")):
        with tarfile.open(record) as tar:
            for name in (name for name in tar.getnames() if name.endswith("/environment.json")):
                file = tar.extractfile(name)
                assert file is not None
                environment = json.load(file)
                seeds = [int(word[5:]) for word in environment["command"] if re.fullmatch(r"seed=\d+", word)]
                if max(seeds, default=0) >= FIRST_SEED:
                    begun[name] = datetime.fromisoformat(environment["started"])
    assert begun
    assert [run for run, start in begun.items() if start < planned] == []
    if git("rev-parse", "--is-shallow-repository") == "false":  # elsewhere without git, or with a part of the history
        log = git("log", "--reverse", "--format=%cI", "-S", "The third plan", "--", str(plan))
        committed = datetime.fromisoformat(log.split()[0])
        assert timedelta() <= committed - planned < timedelta(minutes=5)
        assert committed < min(begun.values())
