"""Select the utterances that a run can use, and report why the others are left out."""

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.alphabet import Alphabet, shortest_path, shortest_paths
from asr_ablations.data.corpus import UNKNOWN_SPEAKERS, Corpus
from asr_ablations.data.index import SILENT
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.errors import UsageError
from asr_verdicts.terminal import harmless
from asr_verdicts.text import lower, normalisation

log = logging.getLogger(__name__)

FEATURE_FRAMES = 100
"""Feature frames per second in all published settings (10 ms hop). An utterance with more labels than feature frames
is faulty, because nobody speaks that fast. An utterance that only some models cannot use is not faulty."""
INFEASIBLE = "infeasible"
OVER_LONG, OVER_LONG_TO_EVALUATE = "longer than data.max_seconds", "longer than data.max_evaluated_seconds"
TOO_SHORT = "too short for one output frame (features.window, model.convolutions)"
UNUSED = INFEASIBLE, TOO_SHORT, OVER_LONG, OVER_LONG_TO_EVALUATE
"""Reasons for leaving out an utterance that depend on the model or on limits, so another run may use the utterance."""
CHUNK = 4096
"""Number of utterances whose transcripts are held in memory at the same time."""
SIGNS = 12
"""Maximum number of characters that an error message lists, because some alphabets have thousands."""
FOREIGN = "characters outside the alphabet"
CURES = {"case": "data.normalise=case makes {} lower case", "punctuation": "data.normalise=punctuation removes {}"}


@dataclass(frozen=True)
class Screened:
    """A data set after screening: utterances to use (`kept`), and excluded utterances by reason (`left_out`).

    infeasible: ids of utterances with too few output frames for CTC; evaluation uses them if they have output frames
    """

    kept: Utterances
    left_out: dict[str, list[Utterance]] = field(default_factory=dict)
    infeasible: list[str] = field(default_factory=list)


def screen(
    corpus: Corpus,
    alphabet: Alphabet,
    output_frames: Callable[[torch.Tensor], torch.Tensor],
    names: Sequence[str] | None = None,
) -> dict[str, Screened]:
    """Exclude unusable utterances from the named sets of a corpus (default: all sets), and return the screened sets.

    If data.on_bad=stop, raises a UsageError that shows the first faulty utterance and counts the faults.
    """
    judged = judge(corpus, alphabet, names)
    if corpus.on_bad == "stop" and (causes := complaints(judged, corpus, alphabet)):
        first = causes[0].utterances[0]
        summary = "; ".join(cause.text for cause in causes)
        raise UsageError(
            f"{first.id}: {first.fault}; {summary} (src/prepare.py with the same data shows more; data.on_bad=skip "
            "leaves faulty utterances out)"
        )
    return select(judged, corpus, alphabet, output_frames)


def judge(corpus: Corpus, alphabet: Alphabet, names: Sequence[str] | None = None) -> dict[str, Utterances]:
    """Return all utterances of the named sets (default: all sets), marked with faults in audio, transcript or id."""
    judged = {}
    for name in dict.fromkeys(names or corpus.sets()):
        utterances = corpus.read_set(name)
        tested = name in corpus.test and name not in ("train", *corpus.validation)
        if tested:  # test sets may contain silence with an empty transcript: recognised words count as insertions
            textless = np.flatnonzero(utterances.has("fault") & ~utterances.has("text")).tolist()
            utterances = utterances.with_faults({i: "" for i in textless if utterances[i].fault.startswith(SILENT)})
        occurrences = Counter(utterances.strings("id"))
        repeated = np.array([occurrences[id_] > 1 for id_ in utterances.strings("id")], np.bool_)
        least_frames, unfit = _measure_texts(utterances, alphabet)
        available = (FEATURE_FRAMES * utterances.column("duration")).astype(np.int64)
        suspects = ~utterances.has("fault") & (repeated | unfit | (least_frames > available))
        pairs = ((i, utterances[i]) for i in np.flatnonzero(suspects).tolist())
        judged[name] = utterances.with_faults(
            {i: _describe_fault(u, alphabet, occurrences[u.id], tested) for i, u in pairs}
        )
    return judged


class Complaint(NamedTuple):
    """All utterances of a set with the same fault. text: message with their number, the fault and any known remedy."""

    text: str
    utterances: list[Utterance]


def complaints(judged: Mapping[str, Utterances], corpus: Corpus, alphabet: Alphabet) -> list[Complaint]:
    """Group faulty utterances by set and kind of fault. Within each set, the largest group comes first."""
    learnable = set[str]().union(*judged["train"].strings("text")) if "train" in judged else set()
    result = []
    for name, utterances in judged.items():
        groups: dict[str, list[Utterance]] = {}
        for u in utterances.take(utterances.has("fault")):
            groups.setdefault(u.fault.partition(":")[0], []).append(u)
        for reason, group in sorted(groups.items(), key=lambda pair: -len(pair[1])):
            about = f": {reason}"
            if reason == FOREIGN:
                about = f" contain {_describe_foreign(group, corpus.language, alphabet, learnable)}"
            result.append(Complaint(f"{len(group)} of {len(utterances)} utterances of {name}{about}", group))
    return result


def _describe_foreign(group: list[Utterance], language: str, alphabet: Alphabet, learnable: set[str]) -> str:
    """List characters outside the alphabet, with settings that remove them or add them to the alphabet."""
    signs = sorted({sign for u in group for sign in alphabet.foreign(u.text)})
    cures: list[str] = []
    for name, cure in CURES.items():
        normalise = normalisation(name, language, "data.normalise", lower)
        if not cures and not any(alphabet.foreign(normalise(u.text)) for u in group):
            cures.append(cure)
    if learnable.issuperset(signs):
        cures.append("alphabet=derived learns {}")
    named = " ".join(map(repr, signs[:SIGNS])) + " …" * (len(signs) > SIGNS)
    return named + ": " * bool(cures) + ", ".join(cures).replace("{}", "it" if len(signs) == 1 else "them")


def _measure_texts(utterances: Utterances, alphabet: Alphabet) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of frames that CTC needs for each transcript (N,), and a mask of unusable transcripts (N,).

    A transcript is unusable if it is empty or contains characters outside the alphabet.
    """
    least, unfit = [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)]
    for begin in range(0, len(utterances), CHUNK):
        chunk = utterances[begin : begin + CHUNK]
        labels, counts = alphabet.encode_all([*chunk.strings("text")])
        owners = np.repeat(np.arange(len(chunk)), counts)
        least.append(shortest_paths(labels, counts))
        unfit.append((counts == 0) | (np.bincount(owners[labels < 0], minlength=len(chunk)) > 0))
    return np.concatenate(least), np.concatenate(unfit)


def select(
    judged: Mapping[str, Utterances],
    corpus: Corpus,
    alphabet: Alphabet,
    output_frames: Callable[[torch.Tensor], torch.Tensor],
) -> dict[str, Screened]:
    """Exclude faulty, overlong and too short utterances from each set. Raises UsageError if a set becomes empty.

    A training utterance is too short if it has too few output frames for CTC, a held-out utterance if it has none.
    """
    selected = {}
    for name, utterances in judged.items():
        trained = name == "train"
        short = INFEASIBLE if trained else TOO_SHORT
        long = OVER_LONG if trained else OVER_LONG_TO_EVALUATE
        sound = ~utterances.has("fault")
        infeasible, too_short = sound.copy(), sound.copy()
        samples = np.rint(utterances.take(sound).column("duration") * SAMPLE_RATE).astype(np.int64)
        available = output_frames(torch.from_numpy(samples)).numpy()
        infeasible[sound] = available < _measure_texts(utterances.take(sound), alphabet)[0]
        too_short[sound] = infeasible[sound] if trained else available == 0
        longest = (corpus.max_seconds if trained else corpus.max_evaluated_seconds) or math.inf
        out = ~sound | too_short | (utterances.column("duration") > longest)
        left_out: dict[str, list[Utterance]] = {}
        for u, is_short in zip(utterances.take(out), too_short[out], strict=True):
            reason = u.fault.partition(":")[0] or (short if is_short else long)
            left_out.setdefault(reason, []).append(u)
        _report_left_out(name, len(utterances), left_out)
        ids = sorted(utterances.take(infeasible).strings("id"))
        selected[name] = Screened(utterances.take(~out), left_out, ids)
    units = {name: selected[name].kept.strings("unit") for name in corpus.test if name in selected}
    kinds = {name: {unit.partition(" ")[0] for unit in strings} for name, strings in units.items()}
    if unknown := [harmless(name) for name in kinds if not kinds[name].isdisjoint(UNKNOWN_SPEAKERS)]:
        log.warning(
            "speakers of %s are unknown: verdicts treat each utterance or recording as a different speaker, so their "
            "intervals may be too narrow; give each utterance a speaker, or set data.speaker_of",
            " and ".join(unknown),
        )
    return selected


def _describe_fault(utterance: Utterance, alphabet: Alphabet, occurrences: int, tested: bool) -> str:
    """Return the fault in an utterance's id or transcript, or "" if there is none."""
    if occurrences > 1:
        return f"duplicate id: {occurrences} utterances have this id, such as {utterance.audio}"
    if not utterance.text and not tested:
        return f"empty transcript: {utterance.audio}"
    if foreign := alphabet.foreign(utterance.text):
        return f"{FOREIGN}: {' '.join(map(repr, foreign))} in {utterance.text!r}"
    needed, available = shortest_path(alphabet.encode(utterance.text)), int(FEATURE_FRAMES * utterance.duration)
    if needed > available:
        return f"transcript longer than frames: it needs {needed} frames, but {utterance.audio} has {available}"
    return ""


def _report_left_out(name: str, count: int, left_out: Mapping[str, Sequence[Utterance]]) -> None:
    """Log which utterances of a set are left out, by reason. Raises UsageError if all `count` utterances are."""
    for reason, utterances in left_out.items():
        ids = ", ".join(sorted(u.id for u in utterances)[:5]) + (" …" if utterances[5:] else "")
        log.warning("%d of %d utterances of %s are left out, %s: %s", len(utterances), count, name, reason, ids)
    if left_out and count == sum(map(len, left_out.values())):
        what = "training utterance" if name == "train" else f"utterance of {name}"
        raise UsageError(f"no {what} is left: {'; '.join(left_out)}")
