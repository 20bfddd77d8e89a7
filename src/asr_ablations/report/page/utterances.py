"""The utterances that were recognised worst, with what each arm heard and the audio to play."""

import base64
import io
from collections import defaultdict
from pathlib import Path
from typing import Any

import soundfile

from asr_ablations.comparison.result import Comparison
from asr_ablations.data import audio
from asr_ablations.metrics.word_alignment import align
from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError

SHOWN = 10
AUDIO_BYTES = 600_000
"""Of all recordings of a page together; longer ones are left out, so that it can be sent by mail."""
LONGEST = 40.0
"""Seconds of one recording; a broken record may claim anything."""
ERRORS = ("substitutions", "deletions", "insertions")


def worst(comparison: Comparison) -> list[dict[str, Any]]:
    """The utterances of the test sets with the highest word error rate over all runs; of equals the longer."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in (run for arm in comparison.arms for run in arm.runs):
        for row in run.utterances:
            if row["set"] in comparison.sets:
                found[row["set"], row["id"]].append(row)
    ordered = sorted(found.items(), key=lambda item: (-_rate(item[1]), -item[1][0]["words"], item[0]))
    left = AUDIO_BYTES
    shown = []
    for (set_, id_), rows in ordered[:SHOWN]:
        sound = recording(rows[0], left)
        left -= len(sound or "")
        shown.append({
            "set": set_, "id": id_, "speaker": rows[0].get("speaker"), "rate": _rate(rows), "audio": sound,
            "heard": [heard for arm in comparison.arms if (heard := _heard(arm.name, arm.runs, set_, id_))],
        })  # fmt: skip
    return shown


def recording(row: dict[str, Any], limit: int) -> str | None:
    """A data: address with the utterance's audio as MP3, which every browser plays; None where the file is missing, no
    audio, or larger than `limit` characters.
    """
    try:
        seconds = min(float(row["duration"]), LONGEST)
        samples = audio.read(Path(row["audio"]), float(row.get("offset") or 0), seconds)
        file = io.BytesIO()
        soundfile.write(file, samples, 16000, format="MP3", subtype="MPEG_LAYER_III", compression_level=0.9)
    except (KeyError, TypeError, ValueError, OSError, UsageError, soundfile.LibsndfileError):
        return None
    address = "data:audio/mpeg;base64," + base64.b64encode(file.getvalue()).decode()
    return address if len(samples) and len(address) <= limit else None


def _heard(arm: str, runs: list[RunRecord], set_: str, id_: str) -> dict[str, Any] | None:
    """What the arm's first seed heard, word by word."""
    rows = [row for run in runs[:1] for row in run.utterances if (row["set"], row["id"]) == (set_, id_)]
    if not rows:
        return None
    pairs = align(str(rows[0]["reference"]).split(), str(rows[0]["hypothesis"]).split())
    return {"arm": arm, "seed": runs[0].seed, "rate": _rate(rows), "pairs": pairs}


def _rate(rows: list[dict[str, Any]]) -> float:
    return sum(row[kind] for row in rows for kind in ERRORS) / max(1, sum(row["words"] for row in rows))
