"""Cases that are typed, each a command of its own, and the record of all cases that a part has tried."""

import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from asr_ablations.tools.files import SOURCE
from asr_verdicts.files import Json
from tests.campaign.commands import THREADS, Result, environment, run_command
from tests.campaign.input_places import InputPlaces
from tests.campaign.input_table import FINE, OUTCOMES, Case, judge
from tests.campaign.part import Context, Report

Item = TypeVar("Item")
FAILED = "failed"


class Tried:
    """A part's cases by name, each with its kind, outcome and detail. A continued campaign tries what has not been
    tried, and what failed once more.
    """

    def __init__(self, context: Context, report: Report, sound: Sequence[str]) -> None:
        self._context, self._report, self._sound = context, report, sound
        self._cases: dict[str, Json] = {str(case["case"]): case for case in context.earlier}

    def left(self, items: Sequence[Item], name: Callable[[Item], str]) -> Iterator[Item]:
        """Those that are to be tried, until the part's time is over. None where all have been, and were sound."""
        known = {name(item) for item in items}
        self._cases = {key: case for key, case in self._cases.items() if key in known}  # a row that was taken out
        sound = {key for key, case in self._cases.items() if case["outcome"] in self._sound}
        items_left = [item for item in items if name(item) not in sound]
        yield from self._context.while_time(items_left, len(items_left))
        if untried := known - self._cases.keys():
            self._report.count("not tried", len(untried))

    def add(self, name: str, kind: str, outcome: str, detail: str, **more: str) -> None:
        """more: whatever helps to repeat the case."""
        self._cases[name] = {"case": name, "kind": kind, "outcome": outcome, "detail": detail, **more}
        self._report.cases = [*self._cases.values()]

    def of(self, kind: str) -> list[Json]:
        return [case for case in self._cases.values() if case["kind"] == kind]

    def close(self, columns: Sequence[str]) -> None:
        """Write rows, counts and failures of all cases into the report. columns: the outcomes that have one."""
        cases = self._report.cases = [*self._cases.values()]
        for kind in sorted({case["kind"] for case in cases}):
            counts = Counter(case["outcome"] for case in self.of(kind))
            self._report.rows.append([kind, str(counts.total()), *(str(counts[name]) for name in columns)])
        self._report.count("cases", len(cases))
        for outcome, number in Counter(case["outcome"] for case in cases).items():
            self._report.count(outcome, number)
        failed = (case for case in cases if case["outcome"] not in self._sound)
        self._report.failures = sorted(f"{case['case']}: {case['outcome']}: {case['detail']}" for case in failed)


FRESH = 20
"""Of so many cases one is typed a second time, with an interpreter of its own."""
DIFFERS = "another in a fresh interpreter"
Trial = Callable[[Case, InputPlaces, bool], tuple[str, str]]
"""A case, and whether it is to be tried in two ways that must agree → its outcome, and what was said."""


def try_cases(context: Context, cases: Sequence[Case], column: str, trial: "Trial | None" = None) -> Report:
    """A part of these cases. column: what their kinds are; trial: other than `typed`."""
    outcomes = (*OUTCOMES, DIFFERS)
    report = context.report(column, "cases", *outcomes)
    tried = Tried(context, report, (FINE,))
    place = context.folder / "places"
    try:
        places = InputPlaces(place)
        for number, case in enumerate(tried.left(cases, name_of)):
            twice = number % FRESH == 0
            ended = (trial or typed)(case, places, twice)
            tried.add(name_of(case), case.kind, *ended, row=case.name, tried="twice" if twice else "once")
    finally:
        report.count("tried in two ways", sum(case["tried"] == "twice" for case in report.cases))
        tried.close(outcomes)
        shutil.rmtree(place, ignore_errors=True)
    return report


def name_of(case: Case) -> str:
    after = f" after {shlex.quote(case.shell)}" if case.shell else ""
    return f"src/{case.command}.py {case.typed}{after}"


def typed(case: Case, places: InputPlaces, twice: bool) -> tuple[str, str]:
    """The outcome of a case, and the exit code with the last line of what it said."""
    first = run_case(case, places, False)
    if not twice or (again := run_case(case, places, True)) == first:
        return first
    return DIFFERS, f"{first} {again}"


def run_case(
    case: Case, places: InputPlaces, fresh: bool, looked_at: Callable[[Sequence[Path]], str | None] = lambda _: None
) -> tuple[str, str]:
    """fresh: in an interpreter of its own; looked_at: says what is wrong with what a sound case leaves in these
    folders, None for nothing.
    """
    with places.scratch() as scratch:
        words = places.words(case, scratch)
        stdin = words.stdin.read_bytes().decode("utf-8", "surrogateescape") if words.stdin else ""
        variables = {**places.environment, **environment(places.folder / "corpora", places.folder), **words.environment}
        command = [str(SOURCE / f"{case.command}.py"), *words.arguments]
        result = run_command(command, {**variables, **THREADS}, places.started_in, stdin, fresh=fresh or None)
        executed = (scratch / "executed").exists()
        expected = tuple(places.filled(word, scratch) for word in case.words)
        outcome = judge(case, result, expected, executed)
        if outcome == FINE and (wrong := looked_at((scratch, places.started_in))):
            return "silent", wrong
        return outcome, said(result)


def said(result: Result) -> str:
    """The exit code, and the last line: of the errors where there are some."""
    lines = (result.errors.strip() or result.out.strip()).splitlines()
    return f"exit code {result.code}, {len(lines)} lines: {lines[-1][-300:] if lines else ''}"
