"""The launches of a sweep, as its manifest has them: which runs, and whether a search proposed them."""

import re
from pathlib import Path
from typing import TypedDict

from asr_ablations.runs.reader import UnreadableFileError, read_sweep


class Launch(TypedDict):
    """One start of a sweep: its time, its command line, the ids of its runs, whether a search proposes them."""

    started: str
    command: list[str]
    arms: list[str]
    search: bool


def launches(sweep: Path) -> list[Launch]:
    """The launches of a sweep's folder, the first one first; none without a manifest that can be read."""
    try:
        recorded = read_sweep(sweep).get("launches", [])
        return [
            {
                "started": str(launch["started"]),
                "command": [str(argument) for argument in launch["command"]],
                "arms": [str(arm) for arm in launch["arms"]],
                "search": launch["search"] is True,
            }
            for launch in recorded
        ]
    except (FileNotFoundError, UnreadableFileError, KeyError, TypeError):
        return []


def searched_arms(sweep: Path) -> frozenset[str]:
    """The ids of the runs that a search proposed, and that no launch before it had declared."""
    proposed: set[str] = set()
    known: set[str] = set()
    for launch in launches(sweep):
        new = {*launch["arms"]} - known
        known |= new
        if launch["search"]:
            proposed |= new
    return frozenset(proposed)


def places(sweep: Path) -> dict[str, int]:
    """The place of each run, by its id, in the order in which the launches of its sweep named them: arms that run at
    the same time start in any order.
    """
    named = dict.fromkeys(arm for launch in launches(sweep) for arm in launch["arms"])
    return {arm: place for place, arm in enumerate(named)}


def logarithmic(sweep: Path) -> frozenset[str]:
    """The keys whose values a search drew on a logarithmic scale: tag(log, interval(…))."""
    try:
        space = read_sweep(sweep).get("space", {})
    except (FileNotFoundError, UnreadableFileError):
        return frozenset()
    return frozenset(key for key, values in space.items() if re.match(r"\s*tag\(\s*log\b", str(values)))
