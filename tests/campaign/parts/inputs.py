"""Bad input at full width: wrong keys, values, paths, files and damaged run folders over every command."""

import random
import shlex
import shutil
from collections import Counter

from asr_ablations.tools.files import SOURCE
from tests.campaign.commands import environment, run_command
from tests.campaign.input_places import FINE, OUTCOMES, Case, InputPlaces, judge, read_table
from tests.campaign.part import Context, Report

NAME = "inputs"
DESCRIPTION = "bad input to every command: one line, the right exit code, no traceback, nothing executed"


def run(context: Context) -> Report:
    """Every row of the table in a random order, so that a short campaign sees all commands."""
    report = context.report("command", "cases", *OUTCOMES)
    cases = read_table()
    random.Random(context.seed).shuffle(cases)
    outcomes: dict[str, Counter[str]] = {}
    folder = context.folder / "places"
    try:
        places = InputPlaces(folder)
        for case in context.while_time(cases, len(cases)):
            outcome, words = run_case(case, places)
            outcomes.setdefault(case.command, Counter())[outcome] += 1
            report.count(outcome)
            if outcome != FINE:
                after = f" after {shlex.quote(case.shell)}" if case.shell else ""
                report.failures.append(f"src/{case.command}.py {case.typed}{after}: {outcome}: {words}")
    finally:
        for command, counts in sorted(outcomes.items()):
            report.rows.append([command, str(counts.total()), *(str(counts[name]) for name in OUTCOMES)])
        shutil.rmtree(folder, ignore_errors=True)
    return report


def run_case(case: Case, places: InputPlaces) -> tuple[str, str]:
    """The outcome, and the exit code with the last line printed."""
    with places.scratch() as scratch:
        words = places.words(case, scratch)
        stdin = words.stdin.read_bytes().decode("utf-8", "surrogateescape") if words.stdin else ""
        variables = {**environment(places.folder / "corpora", places.folder), **words.environment}
        result = run_command(
            [str(SOURCE / f"{case.command}.py"), *words.arguments], variables, places.started_in, stdin
        )
        expected = tuple(places.filled(word, scratch) for word in case.words)
        outcome = judge(case, result, expected, (scratch / "executed").exists())
        lines = (result.errors.strip() or result.out.strip()).splitlines()
        return outcome, f"exit code {result.code}, {len(lines)} lines: {lines[-1][-300:] if lines else ''}"
