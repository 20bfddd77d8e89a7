"""How long a trained model's evaluation takes by beam width, and what the width is worth (papers/004 table 3)."""

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.evaluation.evaluate import log_probs_of
from asr_ablations.metrics.error_counts import Errors, character_errors, word_errors
from asr_ablations.training.load import load_run
from asr_benchmarks.timing import Timing, in_turn


class Search:
    """Decodes the same outputs at every call, which gives its seconds; `texts` are what it found."""

    def __init__(self, decoder: Callable[..., list[str]], outputs: Sequence[torch.Tensor]) -> None:
        self.decoder, self.texts = decoder, [""] * len(outputs)
        self.lengths = torch.tensor([len(row) for row in outputs])
        self.padded = pad_sequence(list(outputs), batch_first=True)  # (B, T, V)

    def __call__(self) -> float:
        started = time.perf_counter()
        self.texts = self.decoder(self.padded, self.lengths)
        return time.perf_counter() - started


def by_beam_width(
    folder: Path, decoder: Any, widths: Sequence[int], utterances: int | None, repeats: int
) -> tuple[list[dict[str, Any]], dict[str, Timing], str]:
    """A row a width for the run in a folder: seconds of the forward pass and the search, WER and CER in %; the times of
    the searches; what was decoded. utterances: so many, evenly out of the first validation set; None: all.
    """
    trained = load_run(folder)
    trained.data.corpus.prepare()
    name = trained.data.corpus.validation[0]
    kept = log_probs_of(trained, name)
    chosen = np.linspace(0, len(kept.lengths) - 1, min(utterances or len(kept.lengths), len(kept.lengths))).astype(int)
    everything = kept.open()
    outputs = [torch.from_numpy(np.array(everything[i], dtype=np.float32)) for i in chosen]
    spoken = [kept.utterances[i] for i in chosen]
    searches = {width: Search(decoder(trained.task.alphabet, beam_width=width), outputs) for width in widths}
    calls = {f"beam {width}": search for width, search in searches.items()}
    timings = in_turn(calls, steps=repeats, warmup=0, title="decoding")
    seconds = sum(utterance.duration for utterance in spoken)
    forward = kept.seconds * seconds / kept.audio_seconds
    rows = [
        {
            "beam width": width,
            "seconds": forward + statistics.median(timings[f"beam {width}"].seconds),
            "WER %": _percent(word_errors, spoken, search.texts),
            "CER %": _percent(character_errors, spoken, search.texts),
        }
        for width, search in searches.items()
    ]
    return rows, timings, f"{len(spoken)} utterances of {name}, {seconds / 60:.1f} minutes of speech"


def _percent(count: Callable[[str, str], Errors], spoken: Sequence[Any], texts: Sequence[str]) -> float:
    each = [count(utterance.text, text) for utterance, text in zip(spoken, texts, strict=True)]
    return 100 * float(sum(each[1:], each[0]).rate)
