"""Description of a run's data: counts for people, and hashes that any change changes."""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import TypedDict

from asr_ablations.data.screening import Screened
from asr_ablations.data.utterance import Utterance


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
    words = [word for u in utterances for word in u.text.split()]
    return {
        "utterances": len(utterances),
        "hours": sum(u.duration for u in utterances) / 3600,
        "speakers": len({u.speaker for u in utterances}),
        "words": len(words),
        "vocabulary": len(set(words)),
        "sha256": content_hash(utterances),
        "left_out": screened.left_out_ids(),
        "infeasible": screened.infeasible,
    }


def content_hash(utterances: Sequence[Utterance]) -> str:
    """Return a SHA-256 over ids, speakers, times, texts and the bytes of the audio files. It does not depend on where
    the files are, nor on the order of the utterances.
    """
    lines = sorted(f"{u.id}\t{u.speaker}\t{u.offset}\t{u.duration}\t{u.text}\t{u.content}" for u in utterances)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def fingerprint(sets: Mapping[str, Screened]) -> str:
    """Return 16 hexadecimal digits over everything that was read for the sets, used or not: they are the same for every
    model and alphabet, which may differ in what they can use.
    """
    hashes = {
        name: content_hash([*screened.kept, *itertools.chain(*screened.left_out.values())])
        for name, screened in sets.items()
    }
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()[:16]
