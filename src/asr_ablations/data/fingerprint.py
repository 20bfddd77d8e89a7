"""What a run's data were: counts for people, hashes that any change changes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from asr_ablations.data.alphabet import Alphabet
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


def fingerprint(hashes: Mapping[str, str], alphabet: Alphabet) -> str:
    """16 hexadecimal digits over the hashes of all sets by name and the alphabet."""
    content = json.dumps([sorted(hashes.items()), alphabet.characters, alphabet.separation])
    return hashlib.sha256(content.encode()).hexdigest()[:16]
