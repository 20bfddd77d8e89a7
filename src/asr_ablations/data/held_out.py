"""What of the validation and test sets is in training too: audio, speakers and sentences."""

from collections.abc import Iterator, Mapping

import numpy as np

from asr_ablations.data.audio import AVERAGED, LONGEST
from asr_ablations.data.audio_checks import ROUNDING
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.utterances import Utterances
from asr_verdicts.terminal import harmless

InTraining = dict[str, int]
"""How many of a set's `utterances` (by their audio), `speakers` and `sentences` (utterances by text) train as well."""


def in_training(held_out: Utterances, training: Utterances) -> InTraining:
    """Count what a held-out set shares with training."""
    speakers = (set(held_out.strings("speaker")) - {""}).intersection(training.strings("speaker"))
    sentences = set(held_out.strings("text")).intersection(training.strings("text"))
    return {
        "utterances": int(shares_audio(held_out, training).sum()),
        "speakers": len(speakers),
        "sentences": sum(text in sentences for text in held_out.strings("text")),
    }


def shares_audio(utterances: Utterances, others: Utterances) -> np.ndarray:
    """Return whether the audio of each utterance (N,) is among that of others: in the same bytes, whatever the names
    of their files, times that overlap by more than their rounding, in a channel that both have.
    """
    shared = np.zeros(len(utterances), np.bool_)
    contents = np.append(np.unique(_contents(utterances)), b"\xff")  # the last one is nobody's
    _, begins, ends = _place(utterances, contents)
    known, starts, stops = _place(others, contents)
    slack = np.minimum(ROUNDING, (ends - begins) / 2)
    channels, heard_in = utterances.column("channel"), others.column("channel")
    for channel in np.unique(channels):
        heard = known & ((heard_in == channel) | (heard_in == AVERAGED) | (channel == AVERAGED))
        order, rows = np.argsort(starts[heard]), channels == channel
        latest = np.maximum.accumulate(np.append(-np.inf, stops[heard][order]))  # end of all that begin before
        earlier = np.searchsorted(starts[heard][order], (ends - slack)[rows])
        shared[rows] = latest[earlier] > (begins + slack)[rows]
    return shared


def _contents(utterances: Utterances) -> np.ndarray:
    """The hash of each file, or its path if a corpus gives no hash, as bytes (N,)."""
    names = zip(utterances.strings("content"), utterances.strings("audio"), strict=True)
    return np.array([(content or path).encode("utf-8", "surrogatepass") for content, path in names], np.bytes_)


def _place(utterances: Utterances, contents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether the content of each utterance is one of these, sorted, and its begin and end in seconds (N,) on a line on
    which one content lies behind the other.
    """
    own = _contents(utterances)
    numbers = np.searchsorted(contents[:-1], own)
    begins = 2 * LONGEST * numbers + utterances.column("offset")
    return contents[numbers] == own, begins, begins + utterances.column("duration")


def warnings_of(sets: Mapping[str, Utterances], shared: Mapping[str, InTraining], corpus: Corpus) -> Iterator[str]:
    """Yield what must be known before rates are believed: audio and speakers of held-out sets that are in training, and
    audio of test sets that is in validation.
    """
    for name, counts in shared.items():
        size, speakers = len(sets[name]), len(set(sets[name].strings("speaker")) - {""})
        if counts["utterances"]:
            yield f"{counts['utterances']} of {size} utterances of {harmless(name)} are in training too"
        if counts["speakers"]:
            meaning = ": intervals are for these speakers" if name in corpus.test else ""
            yield f"{counts['speakers']} of {speakers} speakers of {harmless(name)} are in training{meaning}"
    steering = Utterances.joined([sets[name] for name in corpus.validation])
    for name in corpus.test:
        if count := int(shares_audio(sets[name], steering).sum()):
            what = f"{count} of {len(sets[name])} utterances of {harmless(name)} are in validation too"
            yield f"{what}, which steers training: rates on it are no test"
