"""A single run from the inside: the output of its model for chosen utterances, and its confusions."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from asr_ablations.data import audio
from asr_verdicts.error_counts import Pair, align, recorded_errors
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Record, UtteranceRow


class OutsideCorpusError(UsageError):
    """A record names a file that is no part of its corpus."""


def recorded_audio(run: Record, row: UtteranceRow) -> Path:
    """The audio file of an utterance, links resolved. Raises OutsideCorpusError for one that does not lie in the
    folder data.root of the run's config, and where that folder holds everything of this user.
    """
    path = Path(row["audio"]).resolve()
    data = run.config.get("data")
    named = data.get("root") if isinstance(data, dict) else None
    root = Path(os.path.expanduser(str(named or "."))).resolve()  # a Path refuses an unknown ~user
    if not path.is_relative_to(root):
        raise OutsideCorpusError(f"{path}: lies outside of data.root={root}, the corpus of the run: not read")
    if Path(os.path.expanduser("~")).resolve().is_relative_to(root):
        raise OutsideCorpusError(f"{path}: data.root={root} holds more than a corpus: not read")
    return path


SHOWN = 15
"""Confusions in a table, the most frequent first."""
NOTHING, SPACE = "–", "␣"
"""The signs for a missing word or letter, and for a space."""

Span = tuple[float, float]


@dataclass(frozen=True)
class Inspected:
    """An utterance as the model of a run sees it. kind: why it was chosen; pairs: reference and hypothesis word by
    word; features: (T, F), normalised; log_probs: (T', V) in nats, blank at index 0; symbols: of the V - 1 others;
    step: seconds of a frame of log_probs; spans: seconds of each word of the hypothesis.
    """

    kind: str
    row: UtteranceRow
    pairs: list[Pair]
    features: np.ndarray
    log_probs: np.ndarray
    symbols: list[str]
    step: float
    spans: list[Span]


def chosen(rows: Iterable[UtteranceRow]) -> dict[str, UtteranceRow]:
    """The worst, the median and the best utterance by WER, each once; among equals the longest, which shows most."""
    ordered = sorted(rows, key=lambda row: (recorded_errors(row).rate, -row["words"], row["id"]))
    if not ordered:
        return {}
    highest = recorded_errors(ordered[-1]).rate
    worst = next(row for row in ordered if recorded_errors(row).rate == highest)
    picked: dict[str, UtteranceRow] = {}
    for kind, row in {"worst": worst, "median": ordered[len(ordered) // 2], "best": ordered[0]}.items():
        if all(row is not other for other in picked.values()):
            picked[kind] = row
    return picked


def inspect(run: Record, sets: Sequence[str]) -> list[Inspected]:
    """The chosen utterances of these sets, passed through the run's model.

    Raises UsageError or OSError where its checkpoint or a recording is missing or cannot be read.
    """
    import torch

    from asr_ablations.data.batch import unlabelled_batch
    from asr_ablations.data.word_times import align as times_of_words
    from asr_ablations.training.trained_model import load_run

    task = load_run(run.folder).task
    seen = []
    for kind, row in chosen(row for row in run.utterances if row["set"] in sets).items():
        offset, channel = float(row.get("offset") or 0), row.get("channel", audio.AVERAGED)
        samples = audio.read(recorded_audio(run, row), offset, float(row["duration"]), channel)
        with torch.inference_mode():
            features, lengths = task.normalised_features(unlabelled_batch([samples]))
            log_probs, _ = task.log_probs(features, lengths)
        step = float(row["duration"]) / max(1, log_probs.shape[1])
        words = times_of_words(log_probs[0], str(row["hypothesis"]), task.alphabet, step, 0.0)
        seen.append(
            Inspected(
                kind,
                row,
                align(str(row["reference"]).split(), str(row["hypothesis"]).split()),
                features[0].numpy(),
                log_probs[0].numpy(),
                [SPACE if symbol == " " else symbol for symbol in task.alphabet.characters],
                step,
                [(word.start, word.end) for word in words],
            )
        )
    return seen


def error_spans(seen: Inspected) -> list[tuple[Span, str]]:
    """The places where the hypothesis errs, in seconds, with "reference → hypothesis". A deletion is
    between the words around it.
    """
    spans, number, last = [], 0, 0.0
    for reference, hypothesis in seen.pairs:
        if hypothesis is None:
            following = seen.spans[number][0] if number < len(seen.spans) else float(seen.row["duration"])
            spans.append(((last, max(last, following)), f"{reference} → {NOTHING}"))
            continue
        if number >= len(seen.spans):  # the words of a decoder that writes what the model did not
            break
        span = seen.spans[number]
        if reference != hypothesis:
            spans.append((span, f"{reference or NOTHING} → {hypothesis}"))
        number, last = number + 1, span[1]
    return spans


def word_confusions(rows: Iterable[UtteranceRow]) -> list[list[str]]:
    """The most frequent wrong pairs of words, with how often they occur."""
    pairs = (pair for row in rows for pair in align(str(row["reference"]).split(), str(row["hypothesis"]).split()))
    return _counted(pair for pair in pairs if pair[0] != pair[1])


def letter_confusions(rows: Iterable[UtteranceRow]) -> list[list[str]]:
    """The most frequent wrong pairs of letters, with how often they occur."""
    wrong: list[Pair] = []
    for row in rows:
        reference, hypothesis = str(row["reference"]), str(row["hypothesis"])
        for kind, i, j in Levenshtein.editops(reference, hypothesis):
            letters = reference[int(i)] if kind != "insert" else None, hypothesis[int(j)] if kind != "delete" else None
            wrong.append(letters)
    return _counted(wrong)


def _counted(pairs: Iterable[Pair]) -> list[list[str]]:
    counts = Counter(pairs)
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0][0] or "", item[0][1] or ""))[:SHOWN]
    return [[_shown(a), _shown(b), str(count)] for (a, b), count in frequent]


def _shown(text: str | None) -> str:
    return NOTHING if text is None else SPACE if text == " " else text
