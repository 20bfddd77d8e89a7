"""Hashes of a run's data that any change changes. They need no torch: a finished run is recognised without it."""

import hashlib
import json
from collections.abc import Sequence

from asr_ablations.data.corpus import Corpus
from asr_ablations.data.utterance import Utterance


def content_hash(utterances: Sequence[Utterance]) -> str:
    """Return a SHA-256 over ids, speakers, times, texts and the bytes of the audio files. It does not depend on where
    the files are, nor on the order of the utterances.
    """
    lines = sorted(f"{u.id}\t{u.speaker}\t{u.offset}\t{u.duration}\t{u.text}\t{u.content}" for u in utterances)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def fingerprint(corpus: Corpus) -> str:
    """Return 16 hexadecimal digits over everything that is read for the sets, used or not: they are the same for every
    model and alphabet, which may differ in what they can use. The corpus must be prepared.
    """
    hashes = {name: content_hash(corpus.read_set(name)) for name in corpus.sets()}
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()[:16]
