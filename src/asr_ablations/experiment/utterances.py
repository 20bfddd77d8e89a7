"""Decoding of whole splits, each utterance once."""

from typing import Any

import torch

from asr_ablations.data.datamodule import SpeechData
from asr_ablations.data.utterance import Utterance
from asr_ablations.metrics.error_counts import Errors, character_errors, word_errors
from asr_ablations.training.task import CTCTask


def transcribe_set(task: CTCTask, data: SpeechData, name: str, precision: Any) -> list[dict[str, Any]]:
    """Rows of utterances.csv for one split, in the order of the ids. precision: a context for the forward pass."""
    task.eval()
    utterances = {u.id: u for u in data.sets[name].utterances}
    rows = []
    for batch in data.evaluation_dataloader(name):
        with torch.inference_mode(), precision():
            log_probs, lengths = task(batch.to(task.device))
        for id_, reference, hypothesis in zip(batch.ids, batch.texts, task.decoder(log_probs, lengths), strict=True):
            rows.append(utterance_row(name, utterances[id_], reference, hypothesis))
    return sorted(rows, key=lambda row: row["id"])


def utterance_row(name: str, utterance: Utterance, reference: str, hypothesis: str) -> dict[str, Any]:
    """One row of utterances.csv: transcripts, counts of words, characters and errors, and where the audio is."""
    words, characters = word_errors(reference, hypothesis), character_errors(reference, hypothesis)
    return {
        "set": name,
        "id": utterance.id,
        "speaker": utterance.speaker,
        "reference": reference,
        "hypothesis": hypothesis,
        "words": words.total,
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
        "characters": characters.total,
        "character_substitutions": characters.substitutions,
        "character_deletions": characters.deletions,
        "character_insertions": characters.insertions,
        "audio": str(utterance.audio.resolve()),  # with the seconds below: what a report plays
        "offset": utterance.offset,
        "duration": utterance.duration,
    }


def rates(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """WER, CER and counts of the rows of one split."""
    words, characters = Errors(0, 0, 0, 0), Errors(0, 0, 0, 0)
    for row in rows:
        words += Errors(row["words"], row["substitutions"], row["deletions"], row["insertions"])
        characters += Errors(
            row["characters"],
            row["character_substitutions"],
            row["character_deletions"],
            row["character_insertions"],
        )
    return {
        "utterances": len(rows),
        "words": words.total,
        "wer": words.rate,
        "cer": characters.rate,
        "substitutions": words.substitutions,
        "deletions": words.deletions,
        "insertions": words.insertions,
    }
