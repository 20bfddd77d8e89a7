"""The utterances with the most errors, with each arm's hypothesis and playable audio."""

import base64
import io
import math
from collections import defaultdict
from collections.abc import Sequence

import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.data import audio
from asr_ablations.report.inspection import (
    Inspected,
    OutsideCorpusError,
    as_address,
    letter_confusions,
    recorded_audio,
    word_confusions,
)
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.error_counts import align, recorded_errors, total_errors
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Record, UtteranceRow
from asr_verdicts.report.section import Section

SHOWN = 10
AUDIO_BYTES = 600_000
"""Maximum size of all recordings on a page, so that it can be sent by mail; further recordings are left out."""
LONGEST = 40.0
"""Maximum seconds of a recording, because a damaged record may contain any duration."""


def worst(comparison: Comparison) -> list[dict[str, object]]:
    """Return the test utterances with the highest WER over all runs; among equal rates, longer ones come first."""
    spoken: dict[tuple[str, str], list[tuple[Record, UtteranceRow]]] = defaultdict(list)
    for run in comparison.runs:
        for row in run.utterances:
            if row["set"] in comparison.sets:
                spoken[row["set"], row["id"]].append((run, row))
    rated = [(total_errors([row for _, row in of_runs], "wer").rate, key) for key, of_runs in spoken.items()]
    rated.sort(key=lambda item: (-item[0], -spoken[item[1]][0][1]["words"], item[1]))
    bytes_left = AUDIO_BYTES
    utterances = []
    for rate, key in rated[:SHOWN]:
        run, row = spoken[key][0]
        sound = recording(run, row, bytes_left)
        bytes_left -= len(str(sound["audio"] or ""))
        recognised = [words for arm in comparison.arms if (words := _align_hypothesis(arm, *key))]
        utterances.append({**_describe(row), "rate": rate, **sound, "recognised": recognised})
    return utterances


def _describe(row: UtteranceRow) -> dict[str, object]:
    return {"set": row["set"], "id": row["id"], "speaker": row.get("speaker")}


def recording(run: Record, row: UtteranceRow, limit: int) -> dict[str, object]:
    """Return an utterance's recording: `audio` is a data: address with MP3, which every browser plays. It is None if
    the file is missing or not audio, or if the address exceeds `limit` characters. `silent` is the reason if the file
    is outside the run's corpus.
    """
    try:
        path, offset = recorded_audio(run, row), float(row.get("offset") or 0)
        whole, rate = audio.header(path)  # refuses pipes, from which reading might never end
        to_the_end = math.isinf(duration := float(row["duration"]))  # manifests of other toolkits may omit it
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
    """Return the hypothesis of the arm's first seed, word by word; None if it lacks the utterance."""
    for run in arm.runs[:1]:
        for row in run.utterances:
            if (row["set"], row["id"]) == (set_, id_):
                pairs = align(str(row["reference"]).split(), str(row["hypothesis"]).split())
                return {"arm": arm.name, "seed": run.seed, "rate": recorded_errors(row).rate, "pairs": pairs}
    return None


def confusion_sections(comparison: Comparison) -> list[Section]:
    """Return tables of confused words and letters if the comparison has a single run."""
    rows = [row for run in comparison.runs for row in run.utterances if row["set"] in comparison.sets]
    if len(comparison.runs) != 1 or not rows:
        return []
    note = ["The most frequent wrong pairs in the test sets; – means nothing, ␣ a space."]
    head = ["reference", "recognised as", "times"]
    return [
        Section("Confused words", head, word_confusions(rows), note),
        Section("Confused letters", head, letter_confusions(rows), note),
    ]


def inspected_utterances(comparison: Comparison, inspected: Sequence[Inspected]) -> list[dict[str, object]]:
    """Return the utterances of a single run that its model has seen, with their pictures."""
    return [
        {
            **_describe(seen.row),
            "kind": seen.kind,
            "rate": recorded_errors(seen.row).rate,
            "pairs": seen.pairs,
            "picture": as_address(seen),
            **recording(comparison.runs[0], seen.row, AUDIO_BYTES),
        }
        for seen in inspected
    ]
