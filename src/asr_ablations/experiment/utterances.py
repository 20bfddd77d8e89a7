"""Decode every utterance of a set once, count its errors, and compute the loss of the set."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch

from asr_ablations.data.datamodule import SpeechData
from asr_ablations.data.utterances import Utterance
from asr_ablations.training.ddp import gather_from_ranks, share_buffers
from asr_ablations.training.task import CTCTask
from asr_verdicts.error_counts import error_columns
from asr_verdicts.record import UtteranceRow


class Transcribed(NamedTuple):
    """The results of decoding a set: rows of utterances.csv, sorted by id, and the loss.

    loss: mean over utterances in nats, or over batches if the loss component sums over utterances. It is None if the
      set is empty or the mean is not finite, for example because an utterance has fewer frames than CTC needs.
    """

    rows: list[UtteranceRow]
    loss: float | None


def transcribe_set(
    task: CTCTask,
    data: SpeechData,
    name: str,
    precision: Callable[[], AbstractContextManager[object]],
    advance: Callable[[float], object],
) -> Transcribed:
    """Decode one set. Each rank decodes a share of the utterances, and all ranks return the results of the whole set.

    precision: creates the context for each forward pass. advance: called after each batch with its number of
      utterances.
    """
    task.eval()
    share_buffers(task.model)
    utterances = {u.id: u for u in data.sets[name].utterances}
    rows: list[UtteranceRow] = []
    nats, weights = 0.0, 0
    for batch in data.evaluation_dataloader(name, *data.place()):
        with torch.inference_mode(), precision():
            log_probs, lengths = task(batch.to(task.device))
            weight = task.loss.weight(batch)
            nats, weights = nats + weight * float(task.loss(log_probs, lengths, batch)), weights + weight
        for id_, reference, hypothesis in zip(batch.ids, batch.texts, task.decoder(log_probs, lengths), strict=True):
            rows.append(utterance_row(name, utterances[id_], reference, hypothesis))
        advance(len(batch.ids))
    shares = gather_from_ranks((rows, nats, weights))
    everything = sorted((row for share, _, _ in shares for row in share), key=lambda row: row["id"])
    loss = sum(nats for _, nats, _ in shares) / sum(weights for _, _, weights in shares) if everything else math.nan
    return Transcribed(everything, loss if math.isfinite(loss) else None)


def utterance_row(name: str, utterance: Utterance, reference: str, hypothesis: str) -> UtteranceRow:
    """Return a row of utterances.csv: transcripts, counts of words, characters and errors, and the audio's location."""
    return {
        "set": name,
        "id": utterance.id,
        "speaker": utterance.speaker,
        "unit": utterance.unit,
        "reference": reference,
        "hypothesis": hypothesis,
        **error_columns(reference, hypothesis),  # type: ignore[typeddict-item]
        "audio": str(utterance.audio.resolve()),  # reports play this file from `offset` for `duration` seconds
        "offset": utterance.offset,
        "duration": utterance.duration,
        "channel": utterance.channel,
    }
