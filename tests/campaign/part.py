"""What a part of a campaign is: a module of tests/campaign/parts with NAME, DESCRIPTION and run(context) -> Report."""

import importlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

from asr_verdicts.errors import choices
from asr_verdicts.files import Json

Item = TypeVar("Item")


@dataclass
class Report:
    """The findings of a part. It passes if nothing failed and something was counted.

    columns, rows: the table that people read; counts: of cases by outcome, or whatever else the part counts;
    failures: a line each; cases: whatever helps to repeat one of them, for the JSON file alone.
    """

    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    cases: list[Json] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.failures and sum(self.counts.values()) > 0

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number


@dataclass
class Context:
    """The arguments of a part. folder: for its files, which are kept; seed: of everything drawn at random; advance:
    takes the share of the part that is done; runs: the folder of real runs that was named.
    """

    folder: Path
    seed: int
    seconds: float
    advance: Callable[[float], None]
    runs: Path | None = None
    begun: Report = field(default_factory=lambda: Report([]))
    started: float = field(default_factory=time.monotonic)

    def report(self, *columns: str) -> Report:
        """The report that the part fills and returns. If the campaign is interrupted, its contents are kept."""
        self.begun = Report(list(columns))
        return self.begun

    def while_time(self, items: Iterable[Item], total: int) -> Iterator[Item]:
        """The items, `total` of them, until the part's time is over, and at least one; moves the progress bar."""
        for number, item in enumerate(items):
            seconds = time.monotonic() - self.started
            if number and seconds >= self.seconds:
                return
            self.advance(min(1.0, max(number / total, seconds / max(self.seconds, 1e-9))))
            yield item


class Part(Protocol):
    """A module with these names."""

    NAME: str
    DESCRIPTION: str

    def run(self, context: Context) -> Report: ...


def find_parts() -> dict[str, Part]:
    """Each part by its name."""
    files = sorted((Path(__file__).parent / "parts").glob("[!_]*.py"))
    parts = [cast(Part, importlib.import_module(f"tests.campaign.parts.{path.stem}")) for path in files]
    return {part.NAME: part for part in parts}


def choose(parts: dict[str, Part], names: str) -> list[Part]:
    """The parts in `names`, separated by commas; all for "". Raises UsageError for an unknown one."""
    chosen = [name for name in names.replace(" ", "").split(",") if name] or list(parts)
    for name in chosen:
        if name not in parts:
            raise choices("PARTS", name, sorted(parts))
    return [parts[name] for name in dict.fromkeys(chosen)]
