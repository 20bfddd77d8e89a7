"""Measure the speed of each decoder on the outputs of a confident and an uncertain model."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from omegaconf import DictConfig

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Alphabet, shortest_path
from asr_ablations.data.utterances import Utterance
from asr_ablations.language_models.model import units
from asr_ablations.language_models.ngram import estimate, write_arpa
from asr_ablations.language_models.text import transcripts
from asr_ablations.training.contracts import Decoder
from asr_benchmarks.project.training import prepare_corpus
from asr_benchmarks.tables import Result, fill_row
from asr_benchmarks.timing import check_counts, in_turn, noise_notes

COLUMNS = "decoder | beam_width | model | utterances_per_second | spread %"


def decoding_speed(
    cfg: DictConfig,
    *,
    decoders: Mapping[str, partial[Decoder]],
    beam_widths: Sequence[int],
    sureness: Mapping[str, float],
    frames_per_second: float,
    utterances: int,
    repeats: int,
) -> Result:
    """Measure utterances per second of processor time, for each decoder, beam width and model.

    The model outputs are synthetic: normal noise, with `sureness` added to the logits of the transcript's symbols.
    Language models are estimated from the training transcripts.
    """
    check_counts(utterances=utterances, repeats=repeats)
    torch.set_num_threads(1)
    corpus = prepare_corpus(cfg)
    alphabet = build(cfg.alphabet)(corpus)
    spoken = corpus.read(corpus.validation[0])[:utterances]
    with TemporaryDirectory() as folder:
        files = _write_files(transcripts(corpus, "train"), Path(folder))
        models = {name: _invent_outputs(spoken, alphabet, sure, frames_per_second) for name, sure in sureness.items()}
        built = {}
        for name, decoder in decoders.items():
            options = {key: str(files[value]) for key, value in decoder.keywords.items() if value in files}
            for width in beam_widths if "beam_width" in decoder.keywords else [None]:
                built[name, width] = decoder(alphabet, **options, **({"beam_width": width} if width else {}))
        labels = {case: f"{case[0]}, beam {case[1]}" if case[1] else case[0] for case in built}
        cases = {f"{label}, {model}": (*case, model) for case, label in labels.items() for model in models}
        calls = {key: partial(_time, built[name, width], models[m]) for key, (name, width, m) in cases.items()}
        for search in built.values():  # not timed, because decoders load their files at the first utterance
            _time(search, next(iter(models.values()))[:1])
        timings = in_turn(calls, steps=repeats, warmup=0)
    rows = [
        fill_row(COLUMNS, *cases[key], len(spoken) / timing.median, timing.spread) for key, timing in timings.items()
    ]
    return Result({"utterances": len(spoken)}, {"decoding": rows}, noise_notes(timings))


def _write_files(texts: Sequence[str], folder: Path) -> dict[str, Path]:
    """Write a word 3-gram model, a character 5-gram model and a word list. Return paths by name, such as `<words>`."""
    sentences = [text.split() for text in texts]
    for name, unit, order in (("words", "word", 3), ("characters", "character", 5)):
        write_arpa(folder / name, estimate([units(s, unit) for s in sentences], order, [0] * order))
    (folder / "list").write_text("\n".join(sorted({word for s in sentences for word in s})), encoding="utf-8")
    return {f"<{name}>": folder / name for name in ("words", "characters", "list")}


def _invent_outputs(
    spoken: Sequence[Utterance], alphabet: Alphabet, sure: float, frames_per_second: float
) -> list[torch.Tensor]:
    """Generate log-probabilities (T, V) for each utterance, whose labels are spread evenly over the frames."""
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


def _time(decoder: Decoder, outputs: Sequence[torch.Tensor]) -> float:
    started = time.process_time()
    for row in outputs:
        decoder(row[None], torch.tensor([len(row)]))
    return max(time.process_time() - started, 1e-9)
