"""What an evaluation found, and its files in the run's folder."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asr_ablations.evaluation.error_report import error_report
from asr_ablations.evaluation.log_probs import Stored
from asr_ablations.evaluation.pool import Decoded
from asr_ablations.experiment.utterances import UtteranceRow, rates, utterance_row
from asr_ablations.runs.layout import EVALUATIONS
from asr_ablations.tools.files import write, write_csv, write_json

Row = dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """One decoder on sets of one run. content: what evaluations/<name>.json holds; rows: its utterances."""

    folder: Path
    name: str
    content: dict[str, Any]
    rows: list[UtteranceRow]

    def write(self) -> Path:
        """<name>.json, and beside it the tables of utterances and speakers, and the errors in icefall's style."""
        folder = self.folder / EVALUATIONS
        folder.mkdir(exist_ok=True)
        write_csv(folder / f"{self.name}.utterances.csv", self.rows)
        write_csv(folder / f"{self.name}.speakers.csv", speakers(self.rows))
        write(folder / f"{self.name}.errors.txt", error_report(self.rows))
        write_json(folder / f"{self.name}.json", self.content)  # last: where it is, the others are
        return folder / f"{self.name}.json"


def name_of(decoder: str, content: dict[str, Any]) -> str:
    """<decoder>-<hash of everything that can change the result>."""
    return f"{decoder}-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]}"


def set_rows(stored: Stored, texts: Sequence[str]) -> list[UtteranceRow]:
    """Rows as those of utterances.csv, each utterance once, in the order of the ids."""
    return [
        utterance_row(stored.name, utterance, utterance.text, text)
        for utterance, text in zip(stored.utterances, texts, strict=True)
    ]


def set_content(stored: Stored, decoded: Decoded, rows: list[UtteranceRow], processes: int) -> dict[str, Any]:
    """Rates, counts and times of one set. real_time_factor: seconds of work a second of audio."""
    audio, utterances = stored.audio_seconds, max(1, len(rows))
    return {
        **rates(rows),
        "cer_longer": longer_rate(rows),
        "audio_seconds": audio,
        "forward_seconds": stored.seconds,
        "forward_device": stored.device,
        "decode_seconds": decoded.seconds,
        "decode_core_seconds": decoded.core_seconds,
        "processes": processes,
        "utterances_per_second": utterances / max(decoded.seconds, 1e-9),
        "utterances_per_core_second": utterances / max(decoded.core_seconds, 1e-9),
        "real_time_factor": (stored.seconds + decoded.seconds) / max(audio, 1e-9),
        "sha256_of_transcripts": hashlib.sha256("\n".join(row["hypothesis"] for row in rows).encode()).hexdigest(),
    }


def longer_rate(rows: Sequence[UtteranceRow]) -> float:
    """CER over the longer of reference and hypothesis, 0…1 (papers/004 §4.1.1), of a whole set: the sum of the errors
    over the sum of those lengths.
    """
    errors = sum(
        row["character_substitutions"] + row["character_deletions"] + row["character_insertions"] for row in rows
    )
    return errors / max(1, sum(max(len(row["reference"]), len(row["hypothesis"])) for row in rows))


def speakers(rows: Sequence[UtteranceRow]) -> list[Row]:
    """Rates of every speaker of every set, the worst first."""
    by_speaker: dict[tuple[str, str], list[UtteranceRow]] = {}
    for row in rows:
        by_speaker.setdefault((row["set"], row["speaker"]), []).append(row)
    table = [{"set": name, "speaker": who, **rates(own)} for (name, who), own in by_speaker.items()]
    return sorted(table, key=lambda row: (row["set"], -row["wer"], row["speaker"]))
