"""Ids of utterances: a sample for a message, and the speaker in each id."""

import re
from collections.abc import Iterable, Sequence

from asr_verdicts.errors import UsageError

SHOWN = 5  # ids that a message lists


def some_of(ids: Sequence[str]) -> str:
    """Describe ids by their number and the first of them."""
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"{len(ids)} id{'s' * (len(ids) > 1)} ({', '.join(ids[:SHOWN])}{more})"


def speakers_of(ids: Iterable[str], pattern: str, name: str) -> dict[str, str]:
    """The speaker in each id: the first group of a regular expression.

    Raises UsageError for an invalid pattern, one without a group, and ids in which it finds nothing.
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
