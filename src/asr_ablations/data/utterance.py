"""Utterances."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Utterance:
    """One spoken sentence; `offset` and `duration` in seconds within the file at `audio`.

    A corpus that lists an utterance without a duration sets infinity, for the end of the file; Corpus.read replaces it
    with a number. content: a hash of the whole audio file; fault: why the utterance cannot be used, "<reason>:
    <detail>", empty if it can.
    """

    id: str
    speaker: str
    audio: Path
    offset: float
    duration: float
    text: str
    content: str = ""
    fault: str = ""
