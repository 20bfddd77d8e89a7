"""The cases that a part has tried, those of earlier starts of the same campaign included."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from asr_ablations.tools.files import Json
from tests.campaign.part import Context, Report

Item = TypeVar("Item")
AGAIN, FAILED = "failed before, tried again", "failed"


class Tried:
    """A part's cases by name, each with its kind, outcome, detail, and the commit that it was tried at.

    A continued campaign tries what has not been tried, and what failed once more: `before` then holds how it failed.
    """

    def __init__(self, context: Context, report: Report, sound: Sequence[str]) -> None:
        self._context, self._report, self._sound = context, report, sound
        self._cases: dict[str, Json] = {str(case["case"]): case for case in context.earlier}
        report.cases = [*self._cases.values()]

    def left(self, items: Sequence[Item], name: Callable[[Item], str]) -> Iterator[Item]:
        """Those that are to be tried, until the part's time is over. None where all have been, and were sound."""
        known = {name(item) for item in items}
        self._cases = {key: case for key, case in self._cases.items() if key in known}  # a row that was taken out
        items_left = [item for item in items if not self._is_sound(name(item))]
        yield from self._context.while_time(items_left, len(items_left))
        if untried := known - self._cases.keys():
            self._report.count("not tried", len(untried))

    def add(self, name: str, kind: str, outcome: str, detail: str, **more: str) -> None:
        """more: whatever helps to repeat the case."""
        case: Json = {"case": name, "kind": kind, "outcome": outcome, "detail": detail, **more}
        case["commit"] = self._context.commit
        if (earlier := self._cases.get(name)) is not None:
            case["before"] = [
                *earlier.get("before", []),
                {key: earlier[key] for key in ("outcome", "detail", "commit")},
            ]
        self._cases[name] = case
        self._report.cases = [*self._cases.values()]

    def outcomes(self, kind: str = "") -> Counter[str]:
        """How many cases ended how, of one kind or of all."""
        return Counter(case["outcome"] for case in self._cases.values() if kind in ("", case["kind"]))

    def kinds(self) -> list[str]:
        return sorted({case["kind"] for case in self._cases.values()})

    def of(self, kind: str) -> list[Json]:
        return [case for case in self._cases.values() if case["kind"] == kind]

    def close(self, columns: Sequence[str]) -> None:
        """Write rows, counts and failures of all cases into the report. columns: the outcomes that have one."""
        for kind in self.kinds():
            counts = self.outcomes(kind)
            self._report.rows.append([kind, str(counts.total()), *(str(counts[name]) for name in columns)])
        self._report.count("cases", len(self._cases))
        for outcome, number in self.outcomes().items():
            self._report.count(outcome, number)
        cases = self._cases.values()
        if again := [case for case in cases if "before" in case]:
            self._report.count(AGAIN, len(again))
        failed = (case for case in cases if case["outcome"] not in self._sound)
        self._report.failures = sorted(f"{case['case']}: {case['outcome']}: {case['detail']}" for case in failed)

    def _is_sound(self, name: str) -> bool:
        return name in self._cases and self._cases[name]["outcome"] in self._sound
