"""Utterance ids: describing them in a message, and finding the speaker in each id."""

import re
from collections.abc import Iterable, Sequence

from asr_verdicts.errors import UsageError

SHOWN = 5  # number of ids that a message lists


def some_of(ids: Sequence[str]) -> str:
    """Describe ids by their number and the first few."""
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"{len(ids)} id{'s' * (len(ids) > 1)} ({', '.join(ids[:SHOWN])}{more})"


def speakers_of(ids: Iterable[str], pattern: str, name: str) -> dict[str, str]:
    """Return the speaker in each id, which is the first group of a regular expression.

    Raises UsageError if the pattern is invalid, has no group, or finds no speaker in an id.
    """
    try:
        compiled = re.compile(str(pattern))
    except re.error as error:
        raise UsageError(f"{name}={pattern}: not a regular expression: {error}") from error
    if compiled.groups < 1:
        raise UsageError(f"{name}={pattern}: expected a group for the speaker, as in ^([^-]+)-")
    speakers = {id_: match[1] if (match := compiled.search(id_)) else None for id_ in ids}
    if lacking := [id_ for id_, speaker in speakers.items() if not speaker]:
        raise UsageError(f"{name}={pattern}: finds no speaker in {some_of(lacking)}")
    return {id_: speaker for id_, speaker in speakers.items() if speaker}
