"""What a run's data were: counts for people, hashes that any change changes."""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from asr_ablations.data.screening import Screened
from asr_ablations.data.utterance import Utterance


def describe_set(screened: Screened) -> dict[str, Any]:
    """Utterances, hours, speakers, words and different words of what is used; a hash of it; and what is not."""
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
    """Of ids, speakers, times, texts and the bytes of the audio files; not of where they lie, nor of their order."""
    lines = sorted(f"{u.id}\t{u.speaker}\t{u.offset}\t{u.duration}\t{u.text}\t{u.content}" for u in utterances)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def fingerprint(sets: Mapping[str, Screened]) -> str:
    """16 hexadecimal digits over all that was read for the sets, used or not: the same for every model and alphabet,
    which may differ in what they can use.
    """
    hashes = {name: content_hash([*one.kept, *itertools.chain(*one.left_out.values())]) for name, one in sets.items()}
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()[:16]
