"""Inspection of a single run: chosen utterances drawn over time with the model's output, and confusion tables."""

import base64
import io
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rapidfuzz.distance import Levenshtein

from asr_ablations.data import audio
from asr_verdicts.error_counts import Pair, align, recorded_errors
from asr_verdicts.errors import UsageError
from asr_verdicts.plotting import LOOK, PAGE, panels, save
from asr_verdicts.record import Record, UtteranceRow


class OutsideCorpusError(UsageError):
    """A record names a file outside its corpus."""


def recorded_audio(run: Record, row: UtteranceRow) -> Path:
    """Return an utterance's audio file with links resolved. Raises OutsideCorpusError if it is outside data.root of the
    run's config, or if that folder contains the user's home folder.
    """
    path = Path(row["audio"]).resolve()
    data = run.config.get("data")
    named = data.get("root") if isinstance(data, dict) else None
    root = Path(os.path.expanduser(str(named or "."))).resolve()  # Path raises an error for an unknown ~user
    if not path.is_relative_to(root):
        raise OutsideCorpusError(f"{path}: not read, because it is outside the run's corpus, data.root={root}")
    if Path(os.path.expanduser("~")).resolve().is_relative_to(root):
        raise OutsideCorpusError(f"{path}: not read, because data.root={root} contains more than a corpus")
    return path


SHOWN = 15
"""Number of confusions in a table, the most frequent first."""
NOTHING, SPACE = "–", "␣"
"""Signs for a missing word or letter, and for a space."""

ROW = 1.8
"""Height of a panel in inches; each utterance has two panels."""
LIKELY = 0.1
"""Symbols that never reach this probability are left out of the posteriors."""
ERROR = "#d55e00"
PAGE_DPI = 110

Span = tuple[float, float]


@dataclass(frozen=True)
class Inspected:
    """An utterance and the model's output. kind: why it was chosen. pairs: reference and hypothesis word by word.
    features (T, F): normalised. log_probs (T', V): in nats, blank at index 0, then the V - 1 symbols.
    step: seconds per frame of log_probs. spans: start and end in seconds of each word of the hypothesis."""

    kind: str
    row: UtteranceRow
    pairs: list[Pair]
    features: np.ndarray
    log_probs: np.ndarray
    symbols: list[str]
    step: float
    spans: list[Span]


def choose_utterances(rows: Iterable[UtteranceRow]) -> dict[str, UtteranceRow]:
    """Choose the utterances with the worst, median and best WER, without repetition; the longest of equal ones."""
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
    """Pass the chosen utterances of these sets through the run's model.

    Raises UsageError or OSError if the checkpoint or a recording is missing or unreadable.
    """
    import torch

    from asr_ablations.data.batch import unlabelled_batch
    from asr_ablations.data.word_times import align as times_of_words
    from asr_ablations.training.trained_model import load_run

    task = load_run(run.folder).task
    seen = []
    for kind, row in choose_utterances(row for row in run.utterances if row["set"] in sets).items():
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
    """Return the errors in the hypothesis as spans in seconds with "reference → hypothesis". A deletion spans the time
    between the neighbouring words.
    """
    spans, number, last = [], 0, 0.0
    for reference, hypothesis in seen.pairs:
        if hypothesis is None:
            following = seen.spans[number][0] if number < len(seen.spans) else float(seen.row["duration"])
            spans.append(((last, max(last, following)), f"{reference} → {NOTHING}"))
            continue
        if number >= len(seen.spans):  # a decoder may write words that the model's output does not contain
            break
        span = seen.spans[number]
        if reference != hypothesis:
            spans.append((span, f"{reference or NOTHING} → {hypothesis}"))
        number, last = number + 1, span[1]
    return spans


def word_confusions(rows: Iterable[UtteranceRow]) -> list[list[str]]:
    """Return the most frequent wrong pairs of words, with their counts."""
    pairs = (pair for row in rows for pair in align(str(row["reference"]).split(), str(row["hypothesis"]).split()))
    return _count_pairs(pair for pair in pairs if pair[0] != pair[1])


def letter_confusions(rows: Iterable[UtteranceRow]) -> list[list[str]]:
    """Return the most frequent wrong pairs of letters, with their counts."""
    wrong: list[Pair] = []
    for row in rows:
        reference, hypothesis = str(row["reference"]), str(row["hypothesis"])
        for kind, i, j in Levenshtein.editops(reference, hypothesis):
            letters = reference[int(i)] if kind != "insert" else None, hypothesis[int(j)] if kind != "delete" else None
            wrong.append(letters)
    return _count_pairs(wrong)


def _count_pairs(pairs: Iterable[Pair]) -> list[list[str]]:
    counts = Counter(pairs)
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0][0] or "", item[0][1] or ""))[:SHOWN]
    return [[_format_symbol(a), _format_symbol(b), str(count)] for (a, b), count in frequent]


def _format_symbol(text: str | None) -> str:
    return NOTHING if text is None else SPACE if text == " " else text


def draw_inspected(inspected: Sequence[Inspected], folder: Path) -> list[Path]:
    """Draw the figures utterance_worst, utterance_median and utterance_best."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(LOOK):
        return [path for seen in inspected for path in save(_draw_figure(seen), folder, f"utterance_{seen.kind}")]


def as_address(seen: Inspected) -> str:
    """Draw an utterance and return the picture as a data: address for a page."""
    file = io.BytesIO()
    with rc_context(LOOK):
        _draw_figure(seen).savefig(file, dpi=PAGE_DPI, format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _draw_figure(seen: Inspected) -> Figure:
    figure, (spectrum, posteriors) = panels(1, 2, width=PAGE, height=ROW, sharex=True)
    seconds = float(seen.row["duration"])
    _draw_spectrum(spectrum, seen, seconds)
    _draw_posteriors(posteriors, seen, seconds)
    for (begin, end), text in error_spans(seen):
        for panel in (spectrum, posteriors):
            panel.axvspan(begin, max(end, begin + 0.02), color=ERROR, alpha=0.22, linewidth=0)
        spectrum.annotate(
            text, ((begin + end) / 2, 1), xycoords=("data", "axes fraction"), rotation=25, fontsize=7, color=ERROR,
            ha="left", va="bottom",
        )  # fmt: skip
    posteriors.set_xlabel("time in seconds; shaded: errors in the hypothesis")
    posteriors.set_xlim(0, seconds)
    return figure


def _draw_spectrum(panel: Axes, seen: Inspected, seconds: float) -> None:
    bins = seen.features.shape[1]
    panel.imshow(seen.features.T, origin="lower", aspect="auto", extent=(0, seconds, 0, bins), cmap="Greys")
    panel.set_ylabel("feature, normalised")
    panel.grid(False)


def _draw_posteriors(panel: Axes, seen: Inspected, seconds: float) -> None:
    """Draw a row for each symbol that is ever likely, and a dot for each frame's best, except blanks."""
    probabilities = np.exp(seen.log_probs[:, 1:])
    rows = np.flatnonzero(probabilities.max(axis=0, initial=0) >= LIKELY).tolist()
    panel.set_ylabel("posterior, best path")
    panel.grid(False)
    if not rows:
        return
    shown = probabilities[:, rows].T
    extent = (0, seconds, -0.5, len(rows) - 0.5)
    panel.imshow(shown, origin="lower", aspect="auto", extent=extent, cmap="Blues", vmin=0, vmax=1)
    panel.set_yticks(range(len(rows)), [seen.symbols[row] for row in rows], fontsize=7)
    best = seen.log_probs.argmax(axis=1)
    place = {row + 1: number for number, row in enumerate(rows)}
    frames = [frame for frame in range(len(best)) if best[frame] in place]
    times = (np.array(frames) + 0.5) * seen.step
    panel.plot(times, [place[int(best[frame])] for frame in frames], ".", color="#333333", markersize=3)
