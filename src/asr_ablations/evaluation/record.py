"""The result of an evaluation and its files in the run's folder."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from asr_ablations.evaluation.log_probs import LogProbs
from asr_ablations.evaluation.pool import Decoded
from asr_ablations.experiment.utterances import utterance_row
from asr_ablations.runs.layout import EVALUATIONS, TIMING
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.error_counts import Pair, align
from asr_verdicts.files import Json, write, write_csv, write_json
from asr_verdicts.record import Rates, UtteranceRow, rates


def error_report(rows: Sequence[UtteranceRow]) -> str:
    """Return the error report of every set. It has the WER, utterances with marked errors (reference->hypothesis),
    substitutions, deletions and insertions by frequency, and words by number of errors.
    """
    names = dict.fromkeys(row["set"] for row in rows)
    return "".join(_report_set(name, [row for row in rows if row["set"] == name]) for name in names)


def _report_set(name: str, rows: list[UtteranceRow]) -> str:
    pairs = [align(row["reference"].split(), row["hypothesis"].split()) for row in rows]
    counted = Counter(pair for aligned in pairs for pair in aligned)
    wrong = {pair: n for pair, n in counted.items() if pair[0] != pair[1]}
    words = sum(n for (reference, _), n in counted.items() if reference is not None)
    errors = sum(wrong.values())
    lines = [
        f"set {name}: WER {100 * errors / max(1, words):.2f} % ({errors} errors in {words} words)",
        "\nPER-UTTERANCE DETAILS: (reference->hypothesis), * for none",
        *(f"{row['id']}:\t{_mark_errors(aligned)}" for row, aligned in zip(rows, pairs, strict=True)),
        "\nSUBSTITUTIONS: count reference -> hypothesis",
        *_list_frequent((n, f"{a} -> {b}") for (a, b), n in wrong.items() if a is not None and b is not None),
        "\nDELETIONS: count reference",
        *_list_frequent((n, a) for (a, b), n in wrong.items() if a is not None and b is None),
        "\nINSERTIONS: count hypothesis",
        *_list_frequent((n, b) for (a, b), n in wrong.items() if a is None and b is not None),
        "\nPER-WORD STATISTICS: word  correct  errors  in references  in hypotheses",
        *_list_words(counted),
    ]
    return "\n".join(lines) + "\n\n"


def _mark_errors(aligned: Sequence[Pair]) -> str:
    return " ".join(a if a == b and a is not None else f"({a or '*'}->{b or '*'})" for a, b in aligned)


def _list_frequent(counted: Iterable[tuple[int, str]]) -> list[str]:
    """Format counts and confusions as lines, most frequent first."""
    return [f"{n}\t{confusion}" for n, confusion in sorted(counted, key=lambda row: (-row[0], row[1]))]


def _list_words(counted: Counter[Pair]) -> list[str]:
    """Format word, correct, errors, and counts in references and hypotheses as lines, most errors first."""
    spoken, recognised = Counter[str | None](), Counter[str | None]()
    for (reference, hypothesis), n in counted.items():
        spoken[reference] += n
        recognised[hypothesis] += n
    words = {word for word in (*spoken, *recognised) if word is not None}
    errors = {word: spoken[word] + recognised[word] - 2 * counted[word, word] for word in words}
    return [
        f"{word}\t{counted[word, word]}\t{errors[word]}\t{spoken[word]}\t{recognised[word]}"
        for word in sorted(words, key=lambda word: (-errors[word], word))
    ]


@dataclass(frozen=True, kw_only=True)
class DecodedSet(Rates):
    """Rates and counts of a set."""

    audio_seconds: float
    sha256_of_transcripts: str


@dataclass(frozen=True)
class Evaluation:
    """The result of a decoder on sets of a run.

    folder: of the run. content: of evaluations/<name>.json, with everything that can change texts, and rates by set.
    rows: the utterances of all sets. times: by set.
    """

    folder: Path
    name: str
    content: Json
    rows: list[UtteranceRow]
    times: dict[str, Json]

    def write(self) -> Path:
        """Write <name>.json, tables of utterances and speakers, errors in icefall's format, and times."""
        folder = self.folder / EVALUATIONS
        (folder / TIMING).mkdir(parents=True, exist_ok=True)
        write_json(folder / TIMING / f"{self.name}.json", self.times)
        write_csv(folder / f"{self.name}.utterances.csv", self.rows)
        write_csv(folder / f"{self.name}.speakers.csv", speakers(self.rows))
        write(folder / f"{self.name}.errors.txt", error_report(self.rows))
        content = {**self.content, "sets": {name: as_json(result) for name, result in self.content["sets"].items()}}
        write_json(folder / f"{self.name}.json", content)  # last, so that the others exist if it exists
        return folder / f"{self.name}.json"


def evaluation_name(decoder: str, content: Json) -> str:
    """Return the name <decoder>-<hash>. content: everything that can change the result."""
    return f"{decoder}-{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]}"


def set_rows(log_probs: LogProbs, texts: Sequence[str]) -> list[UtteranceRow]:
    """Return rows like those in utterances.csv, one per utterance, sorted by id. texts: the hypotheses."""
    return [
        utterance_row(log_probs.name, utterance, utterance.text, text)
        for utterance, text in zip(log_probs.utterances, texts, strict=True)
    ]


def set_content(log_probs: LogProbs, rows: Sequence[UtteranceRow]) -> DecodedSet:
    """Return a set's rates and counts."""
    return DecodedSet(
        **vars(rates(rows)),
        audio_seconds=log_probs.audio_seconds,
        sha256_of_transcripts=hashlib.sha256("\n".join(row["hypothesis"] for row in rows).encode()).hexdigest(),
    )


def decoding_times(log_probs: LogProbs, decoded: Decoded, processes: int) -> Json:
    """Return a set's times and device. The real-time factor is relative to seconds of audio."""
    utterances = max(1, len(decoded.texts))
    return {
        "forward_seconds": log_probs.seconds,
        "forward_device": log_probs.device,
        "decode_seconds": decoded.seconds,
        "decode_core_seconds": decoded.core_seconds,
        "processes": processes,
        "utterances_per_second": utterances / max(decoded.seconds, 1e-9),
        "utterances_per_core_second": utterances / max(decoded.core_seconds, 1e-9),
        "real_time_factor": (log_probs.seconds + decoded.seconds) / max(log_probs.audio_seconds, 1e-9),
    }


def speakers(rows: Sequence[UtteranceRow]) -> list[dict[str, object]]:
    """Return the rates of every speaker in every set, worst first."""
    by_speaker: dict[tuple[str, str], list[UtteranceRow]] = {}
    for row in rows:
        by_speaker.setdefault((row["set"], row["speaker"]), []).append(row)
    table = [(name, speaker, rates(spoken)) for (name, speaker), spoken in by_speaker.items()]
    table.sort(key=lambda row: (row[0], -row[2].wer, row[1]))
    return [{"set": name, "speaker": speaker, **as_json(result)} for name, speaker, result in table]
