"""Bad input at full width: wrong keys, values, paths, files and damaged run folders over every command."""

import random
import shlex
import shutil
from collections import Counter

from tests.campaign.commands import THREADS, Result, environment, run_command
from tests.campaign.input_places import InputPlaces
from tests.campaign.input_table import FINE, OUTCOMES, Case, judge, read_table
from tests.campaign.part import Context, Report

NAME = "inputs"
DESCRIPTION = "bad input to every command: one line, the right exit code, no traceback, nothing executed"


def run(context: Context) -> Report:
    """Every row of the table in a random order, so that a short campaign sees all commands."""
    cases = read_table()
    random.Random(context.seed).shuffle(cases)
    report = context.report("command", "cases", *OUTCOMES)
    outcomes: Counter[tuple[str, str]] = Counter()
    place = context.folder / "places"
    places = InputPlaces(place)
    try:
        for number, case in enumerate(context.while_time(cases, len(cases))):
            outcome, detail = tried(case, places, number)
            outcomes[case.command, outcome] += 1
            report.count("cases")
            report.count(outcome)
            report.cases.append({"case": case.name, "typed": case.typed, "outcome": outcome, "detail": detail})
            if outcome != FINE:
                report.failures.append(f"{case.name} `{case.typed or '(nothing)'}`{_shell(case)}: {outcome}: {detail}")
    finally:
        for command in sorted({command for command, _ in outcomes}):
            counts = [outcomes[command, outcome] for outcome in OUTCOMES]
            report.rows.append([command, str(sum(counts)), *map(str, counts)])
        report.failures.sort()
        if skipped := len(cases) - len(report.cases):
            report.count("not tried", skipped)
        shutil.rmtree(place, ignore_errors=True)
    return report


def tried(case: Case, places: InputPlaces, number: int) -> tuple[str, str]:
    """The outcome of a case, and the exit code with the last line of what it said."""
    with places.scratch(number) as scratch:
        words = places.words(case, scratch)
        stdin = words.stdin.read_bytes().decode("utf-8", "surrogateescape") if words.stdin else ""
        variables = {**places.environment, **environment(places.folder / "corpora", places.folder), **words.environment}
        command = [f"src/{case.command}.py", *words.arguments]
        result = run_command(command, {**variables, **THREADS}, stdin=stdin)
        executed = (scratch / "executed").exists()
        expected = tuple(places.filled(word, scratch) for word in case.words)
        return judge(case, result, expected, executed), _told(result)


def _told(result: Result) -> str:
    lines = (result.errors.strip() or result.out.strip()).splitlines()
    return f"exit code {result.code}, {len(lines)} lines: {lines[-1][-300:] if lines else ''}"


def _shell(case: Case) -> str:
    return f" after {shlex.quote(case.shell)}" if case.shell else ""
