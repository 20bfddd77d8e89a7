"""Hashes of a run's data that any change changes. They need no torch: a finished run is recognised without it."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from asr_ablations.data.audio import AVERAGED
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.held_out import InTraining
from asr_ablations.data.utterances import Utterance, Utterances

if TYPE_CHECKING:
    from asr_ablations.data.utterance_selection import Screened


def content_hash(utterances: Sequence[Utterance]) -> str:
    """Return a SHA-256 over ids, speakers, their units, times, channels, texts and the bytes of the audio files. It
    does not depend on where the files are, nor on the order of the utterances.
    """
    columns = Utterances.of(utterances)
    strings = [columns.strings(name) for name in ("id", "speaker", "text", "content", "unit")]
    numbers = [columns.column(name).tolist() for name in ("offset", "duration", "channel")]
    lines = [
        (f"{id_}\t{speaker}\t{offset}\t{duration}\t{text}\t{content}{unit and chr(9)}{unit}"
         + ("" if channel == AVERAGED else f"\tchannel {channel}")).encode()
        for id_, speaker, text, content, unit, offset, duration, channel in zip(*strings, *numbers, strict=True)
    ]  # fmt: skip
    lines.sort()
    digest = hashlib.sha256(lines[0] if lines else b"")
    for line in lines[1:]:
        digest.update(b"\n" + line)
    return digest.hexdigest()


def fingerprint(corpus: Corpus) -> str:
    """Return 16 hexadecimal digits over everything that is read for the sets, used or not: they are the same for every
    model and alphabet, which may differ in what they can use. The corpus must be prepared.
    """
    hashes = {name: content_hash(corpus.read_set(name)) for name in corpus.sets()}
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()[:16]


class SetDescription(TypedDict):
    """Counts of the utterances that a set uses, their hash, and the ids of those that it cannot use, by reason.
    speakers: 0 where any is unknown. units: how many were drawn independently, such as voices; as many as speakers
    where the corpus knows of no other. in_training: None for training itself.
    """

    utterances: int
    hours: float
    speakers: int
    units: int
    words: int
    vocabulary: int
    sha256: str
    left_out: dict[str, list[str]]
    infeasible: list[str]
    in_training: InTraining | None


class DataDescription(TypedDict):
    """The fingerprint of all data of a run, its sets by name, how often training has each word of the others, the
    characters of the alphabet and its separation.
    """

    fingerprint: str
    sets: dict[str, SetDescription]
    training_counts: dict[str, int]
    alphabet: str
    separation: str


def training_counts(training: Utterances, others: Iterable[Utterances]) -> dict[str, int]:
    """How often the training set has each word of the other sets, by word."""
    asked = {word for other in others for text in other.strings("text") for word in text.split()}
    counts = dict.fromkeys(sorted(asked), 0)
    for text in training.strings("text"):
        for word in text.split():
            if word in counts:
                counts[word] += 1
    return counts


def describe_set(screened: "Screened", in_training: InTraining | None = None) -> SetDescription:
    """Describe what is used of a set, by counts and a hash, what is not, and what training has of it."""
    utterances = screened.kept
    speakers = set(utterances.strings("speaker"))
    words, vocabulary = 0, set[str]()
    for text in utterances.strings("text"):
        spoken = text.split()
        words += len(spoken)
        vocabulary.update(spoken)
    return {
        "utterances": len(utterances),
        "hours": sum(utterances.column("duration").tolist()) / 3600,
        "speakers": 0 if "" in speakers else len(speakers),
        "units": len(
            {unit or speaker for unit, speaker in zip(*map(utterances.strings, ("unit", "speaker")), strict=True)}
        ),
        "words": words,
        "vocabulary": len(vocabulary),
        "sha256": content_hash(utterances),
        "left_out": screened.left_out_ids(),
        "infeasible": screened.infeasible,
        "in_training": in_training,
    }
