"""Overlap between the held-out sets and training: audio, speakers and sentences."""

from collections.abc import Iterator, Mapping

import numpy as np

from asr_ablations.data.audio import AVERAGED
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.index import ROUNDING
from asr_ablations.data.utterances import Utterances
from asr_verdicts.terminal import harmless

InTraining = dict[str, int]
"""Counts of a set's `utterances` (by audio), `speakers` and `sentences` (utterances by text) that are in training."""


def in_training(held_out: Utterances, training: Utterances) -> InTraining:
    """Count the utterances, speakers and sentences that a held-out set shares with training."""
    speakers = (set(held_out.strings("speaker")) - {""}).intersection(training.strings("speaker"))
    sentences = set(held_out.strings("text")).intersection(training.strings("text"))
    return {
        "utterances": int(shares_audio(held_out, training).sum()),
        "speakers": len(speakers),
        "sentences": sum(text in sentences for text in held_out.strings("text")),
    }


def shares_audio(utterances: Utterances, others: Utterances) -> np.ndarray:
    """Return whether the audio of each utterance (N,) is also in `others`. This means files with the same bytes, times
    that overlap by more than ROUNDING, and a common channel.
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
    """Yield each file's hash (its path if the corpus gives no hash), begin and end in seconds, and channel."""
    strings = [utterances.strings(name) for name in ("content", "audio")]
    numbers = [utterances.column(name).tolist() for name in ("offset", "duration", "channel")]
    for content, path, begin, seconds, channel in zip(*strings, *numbers, strict=True):
        yield content or path, begin, begin + seconds, channel


def warnings_of(sets: Mapping[str, Utterances], shared: Mapping[str, InTraining], corpus: Corpus) -> Iterator[str]:
    """Yield warnings about speech of held-out sets in training, and of test sets in validation. Error rates on such
    sets are too optimistic.
    """
    for name, counts in shared.items():
        size, speakers = len(sets[name]), len(set(sets[name].strings("speaker")) - {""})
        if counts["utterances"]:
            yield f"{counts['utterances']} of {size} utterances of {harmless(name)} are also in training"
        if counts["speakers"]:
            meaning = ": intervals are for these speakers" if name in corpus.test else ""
            yield f"{counts['speakers']} of {speakers} speakers of {harmless(name)} are in training{meaning}"
    steering = Utterances.join([sets[name] for name in corpus.validation])
    for name in corpus.test:
        if count := int(shares_audio(sets[name], steering).sum()):
            shared_audio = f"{count} of {len(sets[name])} utterances of {harmless(name)} are also in validation"
            yield f"{shared_audio}, which steers training: error rates on it are too optimistic"
