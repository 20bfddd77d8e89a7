"""Evaluation time and error rates of a trained model by beam width (Baunsgaard2020 table 3)."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.data.utterances import Utterance
from asr_ablations.evaluation.evaluate import log_probs_of
from asr_ablations.training.contracts import Decoder
from asr_ablations.training.trained_model import load_run
from asr_benchmarks.timing import Timing, in_turn
from asr_verdicts.error_counts import Errors, character_errors, word_errors

BeamRow = TypedDict(
    "BeamRow", {"beam width": int, "seconds": float, "WER %": float, "CER %": float, "CER (longer) %": float}
)
"""Seconds of the forward pass and the search, and the error rates, with one beam width."""


class BeamWidths(NamedTuple):
    """rows: one per beam width; timings: of the searches; decoded: what was decoded, in words."""

    rows: list[BeamRow]
    timings: dict[str, Timing]
    decoded: str


class Search:
    """Decodes the same log-probabilities (T, V) at every call, which returns its seconds. texts: the last result."""

    def __init__(self, decoder: Decoder, outputs: Sequence[torch.Tensor]) -> None:
        self.decoder, self.texts = decoder, [""] * len(outputs)
        self.lengths = torch.tensor([len(row) for row in outputs])
        self.padded = pad_sequence(list(outputs), batch_first=True)  # (B, T, V)

    def __call__(self) -> float:
        started = time.perf_counter()
        self.texts = self.decoder(self.padded, self.lengths)
        return time.perf_counter() - started


def by_beam_width(
    folder: Path, decoder: partial[Decoder], widths: Sequence[int], utterances: int | None, repeats: int
) -> BeamWidths:
    """Decode with each beam width, for the run in a folder.

    utterances: how many, evenly spread over the first validation set; None for all.
    """
    trained = load_run(folder)
    trained.data.corpus.prepare()
    name = trained.data.corpus.validation[0]
    stored = log_probs_of(trained, name)
    count = len(stored.lengths)
    chosen = np.linspace(0, count - 1, min(utterances or count, count)).astype(int)
    log_probs = stored.read()
    outputs = [torch.from_numpy(np.array(log_probs[i], dtype=np.float32)) for i in chosen]
    spoken = [stored.utterances[i] for i in chosen]
    searches = {width: Search(decoder(trained.task.alphabet, beam_width=width), outputs) for width in widths}
    calls = {f"beam {width}": search for width, search in searches.items()}
    timings = in_turn(calls, steps=repeats, warmup=0, title="decoding")
    seconds = sum(utterance.duration for utterance in spoken)
    forward = stored.seconds * seconds / stored.audio_seconds
    rows: list[BeamRow] = [
        {
            "beam width": width,
            "seconds": forward + timings[f"beam {width}"].median,
            "WER %": _percent(word_errors, spoken, search.texts),
            "CER %": _percent(character_errors, spoken, search.texts),
            "CER (longer) %": _percent(_over_longer, spoken, search.texts),
        }
        for width, search in searches.items()
    ]
    return BeamWidths(rows, timings, f"{len(spoken)} utterances of {name}, {seconds / 60:.1f} minutes of speech")


def _over_longer(reference: str, hypothesis: str) -> Errors:
    return character_errors(reference, hypothesis).over_longer


def _percent(count: Callable[[str, str], Errors], spoken: Sequence[Utterance], texts: Sequence[str]) -> float:
    errors = [count(utterance.text, text) for utterance, text in zip(spoken, texts, strict=True)]
    return 100 * float(sum(errors[1:], errors[0]).rate)
