"""Description of a run's data: counts for people, and hashes that any change changes."""

from typing import TypedDict

from asr_ablations.data.fingerprint import content_hash
from asr_ablations.data.screening import Screened


class SetDescription(TypedDict):
    """Counts of the utterances that a set uses, their hash, and the ids of those that it cannot use, by reason."""

    utterances: int
    hours: float
    speakers: int
    words: int
    vocabulary: int
    sha256: str
    left_out: dict[str, list[str]]
    infeasible: list[str]


class DataDescription(TypedDict):
    """The fingerprint of all data of a run, its sets by name, the characters of the alphabet and its separation."""

    fingerprint: str
    sets: dict[str, SetDescription]
    alphabet: str
    separation: str


def describe_set(screened: Screened) -> SetDescription:
    """Describe what is used of a set, by counts and a hash, and what is not."""
    utterances = screened.kept
    words, vocabulary = 0, set[str]()
    for text in utterances.strings("text"):
        spoken = text.split()
        words += len(spoken)
        vocabulary.update(spoken)
    return {
        "utterances": len(utterances),
        "hours": sum(utterances.column("duration").tolist()) / 3600,
        "speakers": len(set(utterances.strings("speaker"))),
        "words": words,
        "vocabulary": len(vocabulary),
        "sha256": content_hash(utterances),
        "left_out": screened.left_out_ids(),
        "infeasible": screened.infeasible,
    }
