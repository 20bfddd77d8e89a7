"""What a part of a campaign is: a module of tests/campaign/parts with NAME, DESCRIPTION and run(context) -> Report."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Protocol, TypeVar, cast

from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json

PARTS = Path(__file__).parent / "parts"
Item = TypeVar("Item")


@dataclass
class Report:
    """What a part found. It passes if nothing failed and something was counted.

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
        """Add to a count; 0 makes it stand in the report all the same."""
        self.counts[name] = self.counts.get(name, 0) + number


class Context:
    """What a part is given.

    folder: for its files: it is kept, so a part removes what is of no use to a reader; seed: of everything drawn at
    random; advance: takes the share of the part that is done, and what is being done, for the progress bar; runs: the
    folder of real runs that was named, for a part about these; earlier: the cases that earlier starts of the same
    campaign tried, for a part that continues.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        seconds: float,
        advance: Callable[[float, str], None],
        runs: Path | None = None,
        earlier: Sequence[Json] = (),
    ) -> None:
        self.folder, self.seed, self.advance, self.runs = folder, seed, advance, runs
        self.earlier = earlier
        self._seconds, self._started = seconds, time.monotonic()
        self.begun = Report([])

    def seconds_left(self) -> float:
        """Seconds of the part's share of the campaign; below 0 when it should have ended."""
        return self._seconds - (time.monotonic() - self._started)

    def report(self, *columns: str) -> Report:
        """The report that the part fills and returns. What it holds when the campaign is interrupted is kept."""
        self.begun = Report(list(columns))
        return self.begun

    def while_time(self, items: Iterable[Item], total: int) -> Iterator[Item]:
        """The items, `total` of them, until the part's time is over, and one at least; moves the progress bar."""
        for number, item in enumerate(items):
            if number and self.seconds_left() <= 0:
                return
            by_time = 1 - self.seconds_left() / max(self._seconds, 1e-9)
            self.advance(min(1.0, max(number / total, by_time)), f"{number} of {total}")
            yield item


class Part(Protocol):
    """A module with these names. One with CONTINUES = True as well tries its cases in as many starts as it takes."""

    NAME: str
    DESCRIPTION: str

    def run(self, context: Context) -> Report: ...


def continues(part: Part) -> bool:
    """Whether a part takes what earlier starts have tried, which the others do anew."""
    return getattr(part, "CONTINUES", False)


def find_parts(folder: Path = PARTS) -> dict[str, Part]:
    """The parts in a folder by name. Raises UsageError for a file that lacks a part's names, or has another's NAME."""
    parts: dict[str, Part] = {}
    for path in sorted(folder.glob("[!_]*.py")):
        module = _imported(path)
        if missing := [name for name in ("NAME", "DESCRIPTION", "run") if not hasattr(module, name)]:
            raise UsageError(f"{path.name}: no part of a campaign: expected {', '.join(missing)} in it")
        part = cast(Part, module)
        if part.NAME in parts:
            raise UsageError(f"{path.name}: NAME={part.NAME}: another part has that name")
        parts[part.NAME] = part
    return parts


def choose(parts: dict[str, Part], names: str) -> list[Part]:
    """The parts that `names`, with commas between them, asks for; all for "". Raises UsageError for an unknown one."""
    chosen = [name for name in names.replace(" ", "").split(",") if name] or list(parts)
    for name in chosen:
        if name not in parts:
            raise choices("PARTS", name, sorted(parts))
    return [parts[name] for name in dict.fromkeys(chosen)]


def _imported(path: Path) -> ModuleType:
    """The module in a file, by its own name where it lies among the campaign's parts: it may be pickled."""
    if path.parent == PARTS:
        return importlib.import_module(f"tests.campaign.parts.{path.stem}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
