"""Show utterances in detail: the worst ones with audio, confusions, and features and posteriors of a single run."""

import base64
import io
import math
import os
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rapidfuzz.distance import Levenshtein

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.error_counts import Pair, align, recorded_errors, total_errors
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json
from asr_verdicts.plotting import LOOK, PAGE, panels, save
from asr_verdicts.record import Record, UtteranceRow
from asr_verdicts.report.section import Section


class OutsideCorpusError(UsageError):
    """An audio file is outside the corpus of its run."""


def recorded_audio(run: Record, row: UtteranceRow) -> Path:
    """Return the audio file of an utterance, with links resolved.

    Raise OutsideCorpusError if the file is outside data.root of the run's config, or if data.root contains the user's
    home folder. Otherwise, a run folder from someone else could bring private files into the page.
    """
    path, home = Path(row["audio"]).resolve(), Path(os.path.expanduser("~")).resolve()
    data = run.config.get("data")
    named = data.get("root") if isinstance(data, dict) else None
    root = Path(os.path.expanduser(str(named or "."))).resolve()  # os.path also accepts an unknown ~user
    if not path.is_relative_to(root):
        raise OutsideCorpusError(f"{path}: not read, because it is outside the run's corpus, data.root={root}")
    if home.is_relative_to(root):
        raise OutsideCorpusError(f"{path}: not read, because data.root={root} contains more than a corpus")
    return path


CONFUSIONS = 15
"""Maximum number of rows in a table of confusions."""
NOTHING, SPACE = "–", "␣"
"""Symbols for a missing word or letter, and for a space."""

WORST = 10
"""Maximum number of worst utterances on a page."""
AUDIO_BYTES = 600_000
"""Maximum total size of the recordings on a page, so that it can be sent by email. Further recordings are omitted."""
LONGEST = 40.0
"""Maximum duration of a recording in seconds. A damaged run folder may claim any duration."""

ROW = 1.8
"""Height of a panel in inches. Each utterance has two panels."""
LIKELY = 0.1
"""Posteriors are drawn for symbols whose probability reaches this value in some frame."""
ERROR = "#d55e00"

Span = tuple[float, float]


@dataclass(frozen=True)
class Inspected:
    """An utterance, with the model's input and output.

    - kind: worst, median or best
    - pairs: words of the reference, aligned with words of the hypothesis
    - features (T, F): normalised input of the model
    - log_probs (T', V): in nats, with the blank at index 0 and the V - 1 symbols after it
    - step: seconds per frame of log_probs
    - spans: start and end of each word of the hypothesis, in seconds
    """

    kind: str
    row: UtteranceRow
    pairs: list[Pair]
    features: np.ndarray
    log_probs: np.ndarray
    symbols: list[str]
    step: float
    spans: list[Span]


def choose_utterances(rows: Iterable[UtteranceRow]) -> dict[str, UtteranceRow]:
    """Choose the utterances with the worst, median and best WER. If WERs are equal, longer utterances are preferred.

    An utterance that fits several kinds is chosen only once, for the first kind in this order.
    """
    ordered = sorted(rows, key=lambda row: (recorded_errors(row).rate, -row["words"], row["id"]))
    if not ordered:
        return {}
    worst = max(ordered, key=lambda row: recorded_errors(row).rate)  # the first maximum, which is the longest
    kinds = {"worst": worst, "median": ordered[len(ordered) // 2], "best": ordered[0]}
    first_kinds = {id(row): kind for kind, row in reversed(kinds.items())}
    return {kind: row for kind, row in kinds.items() if first_kinds[id(row)] == kind}


def inspect(run: Record, sets: Sequence[str]) -> list[Inspected]:
    """Pass the worst, median and best utterance of the given sets through a run's model.

    Raise UsageError or OSError if the checkpoint or a recording is missing or unreadable.
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
                [SPACE if symbol == " " else symbol for symbol in task.alphabet.symbols],
                step,
                [(word.start, word.end) for word in words],
            )
        )
    return seen


def error_spans(seen: Inspected) -> list[tuple[Span, str]]:
    """Return the errors of a hypothesis. Each is a span in seconds and a label "reference → hypothesis".

    The span of a deletion is the time between the neighbouring words.
    """
    errors, last, spans = [], 0.0, deque(seen.spans)
    for reference, hypothesis in seen.pairs:
        if hypothesis is not None and not spans:  # beam search may return words that cannot be aligned with the output
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
    """Return a row for each of the most frequent word confusions: reference, hypothesis, count."""
    pairs = (pair for row in rows for pair in align(str(row["reference"]).split(), str(row["hypothesis"]).split()))
    return _count_pairs(pair for pair in pairs if pair[0] != pair[1])


def letter_confusions(rows: Iterable[UtteranceRow]) -> list[list[str]]:
    """Return a row for each of the most frequent letter confusions: reference, hypothesis, count."""
    texts = [(str(row["reference"]), str(row["hypothesis"])) for row in rows]
    return _count_pairs(
        (reference[int(i)] if kind != "insert" else None, hypothesis[int(j)] if kind != "delete" else None)
        for reference, hypothesis in texts
        for kind, i, j in Levenshtein.editops(reference, hypothesis)
    )


def _count_pairs(pairs: Iterable[Pair]) -> list[list[str]]:
    counts = Counter(pairs)
    frequent = sorted(counts, key=lambda pair: (-counts[pair], pair[0] or "", pair[1] or ""))[:CONFUSIONS]
    return [[*map(_format_symbol, pair), str(counts[pair])] for pair in frequent]


def _format_symbol(text: str | None) -> str:
    return NOTHING if text is None else SPACE if text == " " else text


def draw_inspected(inspected: Sequence[Inspected], folder: Path) -> list[Path]:
    """Draw a figure for each utterance, such as utterance_worst. Return the paths of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(LOOK):
        return [path for seen in inspected for path in save(_draw_figure(seen), folder, f"utterance_{seen.kind}")]


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
    """Draw a row for each symbol that reaches LIKELY, and a dot at each frame's best symbol unless it is the blank."""
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


def worst(comparison: Comparison) -> list[dict[str, object]]:
    """Return the test utterances with the highest WER over all runs, the longest first if rates are equal."""
    spoken: dict[tuple[str, str], list[tuple[Record, UtteranceRow]]] = defaultdict(list)
    for run in comparison.runs:
        for row in run.utterances:
            if row["set"] in comparison.sets:
                spoken[row["set"], row["id"]].append((run, row))
    rated = [(total_errors([row for _, row in of_runs], "wer").rate, key) for key, of_runs in spoken.items()]
    rated.sort(key=lambda item: (-item[0], -spoken[item[1]][0][1]["words"], item[1]))
    bytes_left = AUDIO_BYTES
    utterances = []
    for rate, key in rated[:WORST]:
        run, row = spoken[key][0]
        sound = recording(run, row, bytes_left)
        bytes_left -= len(str(sound["audio"] or ""))
        recognised = [words for arm in comparison.arms if (words := _align_hypothesis(arm, *key))]
        utterances.append({**_describe(row), "rate": rate, **sound, "recognised": recognised})
    return utterances


def _describe(row: UtteranceRow) -> dict[str, object]:
    return {"set": row["set"], "id": row["id"], "speaker": row.get("speaker")}


def recording(run: Record, row: UtteranceRow, limit: int) -> dict[str, object]:
    """Return the recording of an utterance for a page.

    `audio` is a data: URL with MP3, which every browser plays. It is None if the file is missing or not audio, or if
    the URL has more than `limit` characters. `silent` gives the reason if the file is outside the run's corpus.
    """
    try:
        path, offset = recorded_audio(run, row), float(row.get("offset") or 0)
        whole, rate = audio.header(path)  # raises an error for pipes, because reading them might never end
        to_the_end = math.isinf(duration := float(row["duration"]))  # manifests from other toolkits may lack durations
        seconds = min(whole / rate - offset if to_the_end else duration, LONGEST)
        samples = audio.read(path, offset, seconds, row.get("channel", audio.AVERAGED))
        file = io.BytesIO()
        soundfile.write(file, samples, SAMPLE_RATE, format="MP3", subtype="MPEG_LAYER_III", compression_level=0.9)
    except OutsideCorpusError:
        return {"audio": None, "silent": "its file is outside of data.root"}
    except (KeyError, TypeError, ValueError, OSError, UsageError, soundfile.LibsndfileError):
        return {"audio": None}
    address = "data:audio/mpeg;base64," + base64.b64encode(file.getvalue()).decode()
    return {"audio": address if len(samples) and len(address) <= limit else None}


def _align_hypothesis(arm: Arm, set_: str, id_: str) -> dict[str, object] | None:
    """Return the first seed's hypothesis, aligned with the reference, or None if the utterance is missing."""
    for run in arm.runs[:1]:
        for row in run.utterances:
            if (row["set"], row["id"]) == (set_, id_):
                pairs = align(str(row["reference"]).split(), str(row["hypothesis"]).split())
                return {"arm": arm.name, "seed": run.seed, "rate": recorded_errors(row).rate, "pairs": pairs}
    return None


def confusion_sections(comparison: Comparison) -> list[Section]:
    """Return tables of confused words and letters if there is only one run, otherwise an empty list."""
    rows = [row for run in comparison.runs for row in run.utterances if row["set"] in comparison.sets]
    if len(comparison.runs) != 1 or not rows:
        return []
    note = ["The most frequent wrong pairs in the test sets; – stands for a missing word or letter, ␣ for a space."]
    head = ["reference", "recognised as", "times"]
    return [
        Section("Confused words", head, word_confusions(rows), note),
        Section("Confused letters", head, letter_confusions(rows), note),
    ]


def inspected_utterances(
    comparison: Comparison, inspected: Sequence[Inspected], figures: Mapping[str, str]
) -> list[dict[str, object]]:
    """Return a single run's inspected utterances for a page. figures: data: URLs by figure name."""
    return [
        {
            **_describe(seen.row),
            "kind": seen.kind,
            "rate": recorded_errors(seen.row).rate,
            "pairs": seen.pairs,
            "picture": figures.get(f"utterance_{seen.kind}"),
            **recording(comparison.runs[0], seen.row, AUDIO_BYTES),
        }
        for seen in inspected
    ]
