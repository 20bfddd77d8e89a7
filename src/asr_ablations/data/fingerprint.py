"""Hashes of a run's data. They do not need torch, so a finished run is recognised without loading it."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from asr_ablations.data.audio import AVERAGED
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.held_out import InTraining
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.files import Json

if TYPE_CHECKING:
    from asr_ablations.data.utterance_selection import Screened


def content_hash(utterances: Sequence[Utterance]) -> str:
    """Return a SHA-256 over ids, speakers, units, times, channels, texts and the bytes of the audio files. The files'
    locations and the order of the utterances do not matter.
    """
    columns = Utterances.convert(utterances)
    strings = [columns.strings(name) for name in ("id", "speaker", "text", "content", "unit")]
    numbers = [columns.column(name).tolist() for name in ("offset", "duration", "channel")]
    lines = [
        (f"{id_}\t{speaker}\t{offset}\t{duration}\t{text}\t{content}{unit and chr(9)}{unit}"
         + ("" if channel == AVERAGED else f"\tchannel {channel}")).encode()
        for id_, speaker, text, content, unit, offset, duration, channel in zip(*strings, *numbers, strict=True)
    ]  # fmt: skip
    return hashlib.sha256(b"\n".join(sorted(lines))).hexdigest()


def fingerprint(corpus: Corpus) -> str:
    """Return 16 hexadecimal digits over all utterances of all sets, used or not. The result is the same for every model
    and alphabet, although these may use different utterances. The corpus must be prepared.
    """
    hashes = {name: content_hash(corpus.read_set(name)) for name in corpus.sets()}
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()[:16]


def training_counts(training: Utterances, others: Iterable[Utterances]) -> dict[str, int]:
    """Count how often each word of the other sets occurs in the training set."""
    words_asked = {word for other in others for word in _count_words(other)}
    counts = _count_words(training)
    return {word: counts[word] for word in sorted(words_asked)}


def _count_words(utterances: Utterances) -> Counter[str]:
    return Counter(word for text in utterances.strings("text") for word in text.split())


def describe_set(screened: "Screened", in_training: InTraining | None = None) -> Json:
    """Describe a set: counts and hash of the utterances used, ids left out by reason, and overlap with training (None
    for the training set). speakers: 0 if any is unknown. units: number drawn independently, such as voices; by default
    the speakers.
    """
    utterances = screened.kept
    speakers = set(utterances.strings("speaker"))
    words = _count_words(utterances)
    units = {unit or speaker for unit, speaker in zip(*map(utterances.strings, ("unit", "speaker")), strict=True)}
    return {
        "utterances": len(utterances),
        "hours": sum(utterances.column("duration").tolist()) / 3600,
        "speakers": 0 if "" in speakers else len(speakers),
        "units": len(units),
        "words": words.total(),
        "vocabulary": len(words),
        "sha256": content_hash(utterances),
        "left_out": {reason: sorted(u.id for u in group) for reason, group in sorted(screened.left_out.items())},
        "infeasible": screened.infeasible,
        "in_training": in_training,
    }
