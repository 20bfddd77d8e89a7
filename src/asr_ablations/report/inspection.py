"""Inspection of a single run: chosen utterances drawn over time with the model's output, and confusion tables."""

import base64
import io
import os
from collections import Counter, deque
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
from asr_verdicts.files import Json
from asr_verdicts.plotting import LOOK, PAGE, panels, save
from asr_verdicts.record import Record, UtteranceRow


class OutsideCorpusError(UsageError):
    """A record names a file outside its corpus."""


def recorded_audio(run: Record, row: UtteranceRow) -> Path:
    """Return an utterance's audio file with links resolved. Raises OutsideCorpusError if it is outside data.root of the
    run's config, or if that folder contains the user's home folder.
    """
    path, home = Path(row["audio"]).resolve(), Path(os.path.expanduser("~")).resolve()
    data = run.config.get("data")
    named = data.get("root") if isinstance(data, dict) else None
    root = Path(os.path.expanduser(str(named or "."))).resolve()  # Path raises an error for an unknown ~user
    if not path.is_relative_to(root):
        raise OutsideCorpusError(f"{path}: not read, because it is outside the run's corpus, data.root={root}")
    if home.is_relative_to(root):
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
    worst = max(ordered, key=lambda row: recorded_errors(row).rate)  # the first, and so longest, of equal ones
    kinds = {"worst": worst, "median": ordered[len(ordered) // 2], "best": ordered[0]}
    first_kinds = {id(row): kind for kind, row in reversed(kinds.items())}
    return {kind: row for kind, row in kinds.items() if first_kinds[id(row)] == kind}


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
    errors, last, spans = [], 0.0, deque(seen.spans)
    for reference, hypothesis in seen.pairs:
        if hypothesis is not None and not spans:  # a decoder may write words that the model's output does not contain
            break
        if hypothesis is None:
            following = spans[0][0] if spans else float(seen.row["duration"])
            span = last, max(last, following)
        else:
            span = spans.popleft()
            last = span[1]
        if reference != hypothesis:
            errors.append((span, f"{reference or NOTHING} → {hypothesis or NOTHING}"))
    return errors


def word_confusions(rows: Iterable[UtteranceRow]) -> list[list[str]]:
    """Return the most frequent wrong pairs of words, with their counts."""
    pairs = (pair for row in rows for pair in align(str(row["reference"]).split(), str(row["hypothesis"]).split()))
    return _count_pairs(pair for pair in pairs if pair[0] != pair[1])


def letter_confusions(rows: Iterable[UtteranceRow]) -> list[list[str]]:
    """Return the most frequent wrong pairs of letters, with their counts."""
    texts = [(str(row["reference"]), str(row["hypothesis"])) for row in rows]
    return _count_pairs(
        (reference[int(i)] if kind != "insert" else None, hypothesis[int(j)] if kind != "delete" else None)
        for reference, hypothesis in texts
        for kind, i, j in Levenshtein.editops(reference, hypothesis)
    )


def _count_pairs(pairs: Iterable[Pair]) -> list[list[str]]:
    frequent = sorted(Counter(pairs).items(), key=lambda item: (-item[1], item[0][0] or "", item[0][1] or ""))[:SHOWN]
    return [[*map(_format_symbol, pair), str(count)] for pair, count in frequent]


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
    seconds, bins = float(seen.row["duration"]), seen.features.shape[1]
    spectrum.imshow(seen.features.T, origin="lower", aspect="auto", extent=(0, seconds, 0, bins), cmap="Greys")
    spectrum.set_ylabel("feature, normalised")
    spectrum.grid(False)
    _draw_posteriors(posteriors, seen, seconds)
    for (begin, end), text in error_spans(seen):
        for panel in (spectrum, posteriors):
            panel.axvspan(begin, max(end, begin + 0.02), color=ERROR, alpha=0.22, linewidth=0)
        look: Json = {"rotation": 25, "fontsize": 7, "color": ERROR, "ha": "left", "va": "bottom"}
        spectrum.annotate(text, ((begin + end) / 2, 1), xycoords=("data", "axes fraction"), **look)
    posteriors.set_xlabel("time in seconds; shaded: errors in the hypothesis")
    posteriors.set_xlim(0, seconds)
    return figure


def _draw_posteriors(panel: Axes, seen: Inspected, seconds: float) -> None:
    """Draw a row for each symbol that is ever likely, and a dot for each frame's best, except blanks."""
    probabilities = np.exp(seen.log_probs[:, 1:])
    rows = np.flatnonzero(probabilities.max(axis=0, initial=0) >= LIKELY).tolist()
    panel.set_ylabel("posterior, best path")
    panel.grid(False)
    if not rows:
        return
    look: Json = {"origin": "lower", "aspect": "auto", "cmap": "Blues", "vmin": 0, "vmax": 1}
    panel.imshow(probabilities[:, rows].T, extent=(0, seconds, -0.5, len(rows) - 0.5), **look)
    panel.set_yticks(range(len(rows)), [seen.symbols[row] for row in rows], fontsize=7)
    best = seen.log_probs.argmax(axis=1) - 1
    frames = np.flatnonzero(np.isin(best, rows))
    panel.plot((frames + 0.5) * seen.step, np.searchsorted(rows, best[frames]), ".", color="#333333", markersize=3)
