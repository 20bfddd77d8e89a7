"""Utterances per second and core of each decoder, on a model that is sure of what it hears and on one that is not."""

import itertools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig
from rich.progress import track

from asr_ablations.config import build
from asr_ablations.data.alphabet import Alphabet, shortest_path
from asr_ablations.errors import choices
from asr_ablations.language_models.arpa import write_arpa
from asr_ablations.language_models.kneser_ney import estimate
from asr_ablations.language_models.text import transcripts, units


def decoding_speed(
    cfg: DictConfig,
    *,
    decoders: Mapping[str, Any],
    beam_widths: Sequence[int],
    sureness: Mapping[str, float],
    frames_per_second: float,
    utterances: int,
) -> dict[str, Any]:
    """Utterances a second of one process: decoder × beam width × model.

    The models are made up from the transcripts of the corpus's first validation set: logits are `sureness` for what is
    said, and normal noise for all symbols. A language model and a word list of the training transcripts serve the
    decoders that want one.
    """
    if isinstance(utterances, bool) or not isinstance(utterances, int) or utterances < 1:
        raise choices("benchmark.utterances", utterances, "a whole number, 1 or more")
    torch.set_num_threads(1)
    corpus = build(cfg.data)
    corpus.prepare()
    alphabet = build(cfg.alphabet)(corpus)
    spoken = corpus.read(corpus.validation[0])[:utterances]
    found: dict[str, Any] = {"utterances": len(spoken)}
    with TemporaryDirectory() as folder:
        files = _files(transcripts(corpus, "train"), Path(folder))
        models = {name: _outputs(spoken, alphabet, sure, frames_per_second) for name, sure in sureness.items()}
        cases = [(name, width) for name, made in decoders.items() for width in _widths(made, beam_widths)]
        for (name, width), model in track(list(itertools.product(cases, models)), description="decoding"):
            decoder = decoders[name](alphabet, **_changes(decoders[name], width, files))
            seconds = _seconds(decoder, models[model])
            label = " ".join([name, *([f"beam {width}"] if width else []), model])
            found[f"{label}: utterances per second"] = len(spoken) / seconds
    return found


def _widths(decoder: Any, beam_widths: Sequence[int]) -> Sequence[int | None]:
    return list(beam_widths) if "beam_width" in decoder.keywords else [None]


def _changes(decoder: Any, width: int | None, files: Mapping[str, Path]) -> dict[str, Any]:
    """The beam width, and a file in place of each name of one."""
    named = {key: str(files[value]) for key, value in decoder.keywords.items() if value in files}
    return {**named, **({"beam_width": width} if width else {})}


def _files(texts: Sequence[str], folder: Path) -> dict[str, Path]:
    """A 3-gram of words, a 5-gram of characters, and the words."""
    sentences = [text.split() for text in texts]
    for name, unit, order in (("words", "word", 3), ("characters", "character", 5)):
        write_arpa(folder / name, estimate([units(s, unit) for s in sentences], order, [0] * order))
    (folder / "list").write_text("\n".join(sorted({word for s in sentences for word in s})), encoding="utf-8")
    return {f"<{name}>": folder / name for name in ("words", "characters", "list")}


def _outputs(spoken: Sequence[Any], alphabet: Alphabet, sure: float, frames_per_second: float) -> list[torch.Tensor]:
    """Log-probabilities (T, V) of each utterance: its labels spread evenly over its frames, blanks between."""
    generator = np.random.default_rng(0)
    outputs = []
    for utterance in spoken:
        labels = alphabet.encode(utterance.text)
        frames = max(round(utterance.duration * frames_per_second), shortest_path(labels), 2 * len(labels))
        path = np.zeros(frames, dtype=int)
        path[np.linspace(0, frames - 1, len(labels)).round().astype(int)] = labels
        logits = generator.standard_normal((frames, alphabet.outputs))
        logits[np.arange(frames), path] += sure
        outputs.append(torch.from_numpy(logits).log_softmax(-1).float())
    return outputs


def _seconds(decoder: Any, outputs: Sequence[torch.Tensor]) -> float:
    decoder(outputs[0][None], torch.tensor([len(outputs[0])]))  # the first call loads what it needs
    started = time.process_time()
    for row in outputs:
        decoder(row[None], torch.tensor([len(row)]))
    return max(time.process_time() - started, 1e-9)
