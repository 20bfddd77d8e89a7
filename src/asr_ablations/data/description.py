"""Describe a run's data by hashes, counts and the overlap of held-out sets with the training set, without torch."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from asr_ablations.data.audio import AVERAGED
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.index import ROUNDING
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.files import Json
from asr_verdicts.terminal import harmless

if TYPE_CHECKING:
    from asr_ablations.data.utterance_selection import Screened


def content_hash(utterances: Sequence[Utterance]) -> str:
    """Return the SHA-256 of ids, speakers, units, times, channels, transcripts and audio, but not of paths or order."""
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
    """Return a hash (16 hexadecimal digits) of all utterances in a prepared corpus, including unused ones."""
    return join_hashes({name: content_hash(corpus.read_set(name)) for name in corpus.sets()})


def join_hashes(hashes: Mapping[str, str]) -> str:
    """Return the fingerprint of a corpus from the content hash of each set."""
    return hashlib.sha256(json.dumps(sorted(hashes.items())).encode()).hexdigest()[:16]


def training_counts(training: Counter[str], others: Iterable[Counter[str]]) -> dict[str, int]:
    """Return how often the training set contains each word of the other sets, from the counts of all words."""
    return {word: training[word] for word in sorted(set[str]().union(*others))}


def count_words(utterances: Utterances) -> Counter[str]:
    counts = Counter[str]()
    for text in utterances.strings("text"):
        counts.update(text.split())
    return counts


def describe_set(
    screened: "Screened",
    shared: dict[str, int] | None = None,
    words: Counter[str] | None = None,
    sha256: str | None = None,
) -> Json:
    """Return counts and a hash of the utterances that a run uses from a set, and ids of excluded utterances by reason.

    - words, sha256: how often each word occurs in these utterances, and their content hash, if known
    - shared: overlap with the training set, as returned by `in_training`; None for the training set itself
    - "speakers" in the result: number of speakers, or 0 if the speaker of any utterance is unknown
    - "units" in the result: number of statistically independent units, such as voices (by default, speakers)
    """
    utterances = screened.kept
    speakers = set(utterances.strings("speaker"))
    words = count_words(utterances) if words is None else words
    units = {unit or speaker for unit, speaker in zip(*map(utterances.strings, ("unit", "speaker")), strict=True)}
    return {
        "utterances": len(utterances),
        "hours": sum(utterances.column("duration").tolist()) / 3600,
        "speakers": 0 if "" in speakers else len(speakers),
        "units": len(units),
        "words": words.total(),
        "vocabulary": len(words),
        "sha256": sha256 or content_hash(utterances),
        "left_out": {reason: sorted(u.id for u in group) for reason, group in sorted(screened.left_out.items())},
        "infeasible": screened.infeasible,
        "in_training": shared,
    }


def in_training(held_out: Utterances, training: Utterances) -> dict[str, int]:
    """Count the utterances, speakers and sentences of a held-out set that also occur in the training set."""
    speakers = (set(held_out.strings("speaker")) - {""}).intersection(training.strings("speaker"))
    sentences = set(held_out.strings("text")).intersection(training.strings("text"))
    return {
        "utterances": int(shares_audio(held_out, training).sum()),
        "speakers": len(speakers),
        "sentences": sum(text in sentences for text in held_out.strings("text")),
    }


def shares_audio(utterances: Utterances, others: Utterances) -> np.ndarray:
    """Return a mask (N,) of the utterances whose audio also occurs in `others`.

    Two utterances share audio if their files have the same bytes, their times overlap by more than ROUNDING seconds,
    and they have a channel in common.
    """
    parts: dict[str, list[tuple[float, float, int]]] = {content: [] for content, *_ in _parts(utterances)}
    for content, begin, end, channel in _parts(others):
        if content in parts:
            parts[content].append((begin, end, channel))
    shared = []
    for content, begin, end, channel in _parts(utterances):
        slack = min(ROUNDING, (end - begin) / 2)
        shared.append(
            any(
                start < end - slack and stop > begin + slack and (heard == channel or AVERAGED in (heard, channel))
                for start, stop, heard in parts[content]
            )
        )
    return np.array(shared, np.bool_)


def _parts(utterances: Utterances) -> Iterator[tuple[str, float, float, int]]:
    """Yield the hash (or else the path) of each utterance's file, its start and end in seconds, and its channel."""
    strings = [utterances.strings(name) for name in ("content", "audio")]
    numbers = [utterances.column(name).tolist() for name in ("offset", "duration", "channel")]
    for content, path, begin, seconds, channel in zip(*strings, *numbers, strict=True):
        yield content or path, begin, begin + seconds, channel


def warnings_of(sets: Mapping[str, Utterances], shared: Mapping[str, dict[str, int]], corpus: Corpus) -> Iterator[str]:
    """Yield a warning for each kind of overlap that makes error rates on a held-out set too optimistic."""
    for name, counts in shared.items():
        size, speakers = len(sets[name]), len(set(sets[name].strings("speaker")) - {""})
        if counts["utterances"]:
            yield f"{counts['utterances']} of {size} utterances of {harmless(name)} are also in the training set"
        if counts["speakers"]:
            meaning = ": intervals are for these speakers" if name in corpus.test else ""
            yield f"{counts['speakers']} of {speakers} speakers of {harmless(name)} are in the training set{meaning}"
    steering = Utterances.join([sets[name] for name in corpus.validation])
    for name in corpus.test:
        if count := int(shares_audio(sets[name], steering).sum()):
            shared_audio = f"{count} of {len(sets[name])} utterances of {harmless(name)} are also in a validation set"
            yield f"{shared_audio}, which steers training: error rates on this test set are too optimistic"
