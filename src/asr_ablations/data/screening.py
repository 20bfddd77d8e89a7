"""Selection of the utterances that a run uses: faults of the others, and how they are treated."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.alphabet import Alphabet, shortest_path
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import UsageError

log = logging.getLogger(__name__)

FEATURE_FRAMES = 100
"""Feature frames per second in every published setting (a hop of 10 ms). No model has more frames for a transcript, and
nobody speaks so fast. Transcripts too long for the frames of one model are left out of training (`infeasible`)."""
INFEASIBLE = "infeasible"
OVER_LONG, OVER_LONG_TO_EVALUATE = "longer than data.max_seconds", "longer than data.max_evaluated_seconds"


@dataclass(frozen=True)
class Screened:
    """One set: the utterances that are kept, those that are left out, by reason, and the ids of those whose transcripts
    need more than the model's output frames (left out of training, kept in evaluation).
    """

    kept: list[Utterance]
    left_out: dict[str, list[Utterance]] = field(default_factory=dict)
    infeasible: list[str] = field(default_factory=list)

    def left_out_ids(self) -> dict[str, list[str]]:
        """Return the ids that are left out, sorted, by reason."""
        return {reason: sorted(u.id for u in utterances) for reason, utterances in sorted(self.left_out.items())}


def screen(
    corpus: Corpus,
    alphabet: Alphabet,
    output_frames: Callable[[torch.Tensor], torch.Tensor],
    names: Sequence[str] | None = None,
) -> dict[str, Screened]:
    """Return the named sets of the corpus, by default all: train, and the splits of validation and test.

    Raises UsageError that counts the unusable utterances and names the first, unless the corpus skips them.
    """
    judged = judge(corpus, alphabet, names)
    bad = [u for utterances in judged.values() for u in utterances if u.fault]
    if bad and corpus.on_bad == "stop":
        more = f"; {len(bad) - 1} more are unusable, src/prepare.py with the same data lists all" if bad[1:] else ""
        raise UsageError(f"{bad[0].id}: {bad[0].fault}{more} (data.on_bad=skip leaves them out)")
    return select(judged, corpus, alphabet, output_frames)


def judge(corpus: Corpus, alphabet: Alphabet, names: Sequence[str] | None = None) -> dict[str, list[Utterance]]:
    """Return the utterances of the named sets, by default of all, with the faults of their audio, texts and ids."""
    judged = {}
    for name in dict.fromkeys(names or corpus.sets()):
        utterances = corpus.read_set(name)
        occurrences = Counter(u.id for u in utterances)
        faults = (u.fault or _fault(u, alphabet, occurrences[u.id]) for u in utterances)
        judged[name] = [replace(u, fault=fault) if fault else u for u, fault in zip(utterances, faults, strict=True)]
    return judged


def select(
    judged: Mapping[str, Sequence[Utterance]],
    corpus: Corpus,
    alphabet: Alphabet,
    output_frames: Callable[[torch.Tensor], torch.Tensor],
) -> dict[str, Screened]:
    """Return the sets without unusable utterances and those that are too long, and train without those that CTC cannot
    learn.

    Raises UsageError if that leaves a set empty.
    """
    selected = {}
    for name, utterances in judged.items():
        sound = [u for u in utterances if not u.fault]
        infeasible = _infeasible(sound, alphabet, output_frames)
        trained = name == "train"
        longest = (corpus.max_seconds if trained else corpus.max_evaluated_seconds) or math.inf
        over_long = OVER_LONG if trained else OVER_LONG_TO_EVALUATE
        reasons = [
            _reason(u, trained and u.id in infeasible, over_long if u.duration > longest else "") for u in utterances
        ]
        left_out: dict[str, list[Utterance]] = {}
        for utterance, reason in zip(utterances, reasons, strict=True):
            if reason:
                left_out.setdefault(reason, []).append(utterance)
        _warn(name, len(utterances), left_out)
        kept = [u for u, reason in zip(utterances, reasons, strict=True) if not reason]
        selected[name] = Screened(kept, left_out, sorted(infeasible))
    return selected


def _reason(utterance: Utterance, infeasible: bool, over_long: str) -> str:
    """Return why the utterance is left out, "" if it is not. over_long: that it is too long, "" if it is not."""
    if utterance.fault:
        return utterance.fault.partition(":")[0]
    return INFEASIBLE if infeasible else over_long


def _fault(utterance: Utterance, alphabet: Alphabet, occurrences: int) -> str:
    """Return what is wrong with the id or the text of an utterance, "" for nothing."""
    if occurrences > 1:
        return f"duplicate id: {occurrences} utterances have it, one of them {utterance.audio}"
    if not utterance.text:
        return f"empty transcript: {utterance.audio}"
    if foreign := alphabet.foreign(utterance.text):
        return f"characters outside the alphabet: {' '.join(map(repr, foreign))} in {utterance.text!r}"
    needed, available = shortest_path(alphabet.encode(utterance.text)), int(FEATURE_FRAMES * utterance.duration)
    if needed > available:
        return f"transcript longer than frames: {needed} labels and repeats, {available} frames of {utterance.audio}"
    return ""


def _infeasible(
    utterances: list[Utterance], alphabet: Alphabet, output_frames: Callable[[torch.Tensor], torch.Tensor]
) -> set[str]:
    """Return the ids of the utterances whose transcripts CTC cannot align with the model's output frames."""
    frames = output_frames(torch.tensor([round(u.duration * SAMPLE_RATE) for u in utterances], dtype=torch.long))
    needed = (shortest_path(alphabet.encode(u.text)) for u in utterances)
    return {u.id for u, count, least in zip(utterances, frames.tolist(), needed, strict=True) if count < least}


def _warn(name: str, count: int, left_out: Mapping[str, Sequence[Utterance]]) -> None:
    """Log what is left out of a set of `count` utterances, by reason. Raises UsageError if nothing else is left."""
    for reason, utterances in left_out.items():
        ids = ", ".join(sorted(u.id for u in utterances)[:5]) + (" …" if utterances[5:] else "")
        log.warning("%d of %d utterances of %s are left out, %s: %s", len(utterances), count, name, reason, ids)
    if left_out and count == sum(map(len, left_out.values())):
        raise UsageError(f"no {'training utterance' if name == 'train' else f'utterance of {name}'} is left")
