"""Cases that are typed: each a command of its own, forked from an interpreter that has torch imported."""

import shlex
import shutil
from collections.abc import Sequence

from tests.campaign.commands import THREADS, Result, environment, run_command
from tests.campaign.input_places import InputPlaces
from tests.campaign.input_table import FINE, OUTCOMES, Case, judge
from tests.campaign.part import Context, Report
from tests.campaign.tried import Tried

FRESH = 20
"""Of so many cases one is typed a second time, with an interpreter of its own."""
DIFFERS = "another in a fresh interpreter"


def try_cases(context: Context, cases: Sequence[Case], column: str) -> Report:
    """A part of these cases. column: what their kinds are."""
    report = context.report(column, "cases", *OUTCOMES, DIFFERS)
    tried = Tried(context, report, (FINE,))
    place = context.folder / "places"
    try:
        places = InputPlaces(place)
        for number, case in enumerate(tried.left(cases, _name)):
            fresh = number % FRESH == 0
            interpreter = "both" if fresh else "forked"
            tried.add(_name(case), case.kind, *try_case(case, places, fresh), row=case.name, interpreter=interpreter)
    finally:
        report.count("typed twice, forked and not", sum(case["interpreter"] == "both" for case in report.cases))
        tried.close((*OUTCOMES, DIFFERS))
        shutil.rmtree(place, ignore_errors=True)
    return report


def _name(case: Case) -> str:
    after = f" after {shlex.quote(case.shell)}" if case.shell else ""
    return f"src/{case.command}.py {case.typed}{after}"


def try_case(case: Case, places: InputPlaces, fresh: bool) -> tuple[str, str]:
    """The outcome of a case, and the exit code with the last line of what it said. fresh: whether it is typed twice."""
    first = _tried(case, places, False)
    if not fresh or (again := _tried(case, places, True)) == first:
        return first
    return DIFFERS, f"{first} {again}"


def _tried(case: Case, places: InputPlaces, fresh: bool) -> tuple[str, str]:
    with places.scratch() as scratch:
        words = places.words(case, scratch)
        stdin = words.stdin.read_bytes().decode("utf-8", "surrogateescape") if words.stdin else ""
        variables = {**places.environment, **environment(places.folder / "corpora", places.folder), **words.environment}
        command = [f"src/{case.command}.py", *words.arguments]
        result = run_command(command, {**variables, **THREADS}, stdin=stdin, fresh=fresh or None)
        executed = (scratch / "executed").exists()
        expected = tuple(places.filled(word, scratch) for word in case.words)
        return judge(case, result, expected, executed), _said(result)


def _said(result: Result) -> str:
    lines = (result.errors.strip() or result.out.strip()).splitlines()
    return f"exit code {result.code}, {len(lines)} lines: {lines[-1][-300:] if lines else ''}"
