"""Export a run's trained model to ONNX, with a Markdown model card for its users."""

import copy
import json
import logging
import math
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnxruntime
import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.nn.functional import conv1d, pad

from asr_ablations import SAMPLE_RATE
from asr_ablations.components.features.spectrogram import PowerSpectrum
from asr_ablations.components.model.directions import Directions
from asr_ablations.data.batch import unlabelled_batch
from asr_ablations.runs.identity import of_the_experiment, shortened
from asr_ablations.runs.layout import ENVIRONMENT, SUMMARY
from asr_ablations.runs.reader import read_data, read_environment, read_overrides, read_summary
from asr_ablations.tools.masks import normalise_utterances
from asr_ablations.training.auxiliary import count_parameters, without_auxiliary
from asr_ablations.training.task import CTCTask
from asr_ablations.training.trained_model import Trained, load_run
from asr_verdicts.errors import UsageError
from asr_verdicts.files import whole_file, write, write_json
from asr_verdicts.record import NO_SUMMARY, Environment, SetContent, Summary
from asr_verdicts.terminal import harmless

UNKNOWN = "not recorded"
CARD = "<!-- Delete this line to keep your changes: export.py replaces a card that has it. -->"


def card(trained: Trained, file: str) -> str:
    """Return the model card as Markdown, with "not recorded" for values that the run lacks. file: ONNX file's name."""
    finished = (trained.folder / SUMMARY).is_file()
    summary = read_summary(trained.folder) if finished else NO_SUMMARY
    environment = read_environment(trained.folder) if (trained.folder / ENVIRONMENT).is_file() else Environment()
    sets = read_data(trained.folder).sets if finished else {}
    parameters = count_parameters(trained.task.model)
    code, corpus, symbols = environment.code, trained.data.corpus, trained.task.alphabet.symbols
    spelled = " ".join("space" if symbol == " " else f"`{symbol}`" for symbol in symbols)
    units = "characters" if trained.task.alphabet.spells else "pieces of words"
    settings = [shortened(word) for word in of_the_experiment(read_overrides(trained.folder))]
    size, train = f"Its size is {UNKNOWN}.", sets.get("train")
    if train is not None:
        size = f"{train.hours:.2f} hours, {train.utterances:,} utterances of {_count_speakers(train)}, "
        size += f"{train.vocabulary:,} different words."
    lines = [
        f"# {file}",
        "",
        f"Speech recognition by CTC: {parameters / 1e6:.2f} million parameters, waveforms at 16 kHz in, "
        f"log-probabilities of {len(symbols)} {units} out ({spelled}).",
        "",
        "## Training",
        "",
        f"- Data: {type(corpus).__name__}, language `{corpus.language}`. {size}",
        f"- Rights in the data: {corpus.licence}.",
        f"- Settings: {' '.join(f'`{word}`' for word in settings) or 'the defaults'}; "
        f"epochs: {UNKNOWN if summary.epochs is None else summary.epochs}; checkpoint `{trained.checkpoint.name}`.",
        f"- Run `{environment.id or UNKNOWN}`, code {(code.commit or UNKNOWN)[:12]}.",
        "",
        "## Error rates",
        "",
        *_list_rates(summary, sets),
        "",
        "## Limits",
        "",
        *_list_limits(train),
        "",
        "## Licence of the weights",
        "",
        "Not chosen yet. State it here after checking the rights in the data.",
        "",
        CARD,
    ]
    return "".join(f"{harmless(line)}\n" for line in lines)


def _list_rates(summary: Summary, sets: Mapping[str, SetContent]) -> list[str]:
    if not summary.sets:
        return [f"{UNKNOWN.capitalize()}, because the run has not ended."]
    rows = [
        f"| {name} | {(sets[name].speakers if name in sets else None) or UNKNOWN} | {result.words:,} | "
        f"{100 * result.wer:.2f} | {UNKNOWN if result.cer is None else f'{100 * result.cer:.2f}'} |"
        for name, result in summary.sets.items()
    ]
    text = "The last checkpoint was decoded greedily, without a language model, unless the settings say otherwise."
    return [text, "", "| set | speakers | words | WER % | CER % |", "| --- | ---: | ---: | ---: | ---: |", *rows]


def _count_speakers(data: SetContent) -> str:
    return f"{data.speakers} speakers" if data.speakers else "an unknown number of speakers"


def _list_limits(train: SetContent | None) -> list[str]:
    lines = ["- The output looks like the training transcripts: only the characters above, one case, no punctuation."]
    if train is not None:
        lines.append(
            f"- The model was trained on {_count_speakers(train)} and {train.vocabulary:,} different words."
            " Expect much higher error rates for other voices, rooms, microphones, languages or words."
        )
    lines.append("- Confidences are not calibrated. If all of them are low, the speech is unlike the training data.")
    return lines


def export(cfg: DictConfig) -> Path:
    """Write the ONNX file with its metadata (.json) and model card (.md) next to it, and return the ONNX file's path.

    Raise UsageError if the run cannot be exported, or if one of the files exists but was not written by an export.
    """
    trained = load_run(str(cfg.run), cfg.checkpoint)
    file = Path(str(cfg.output)) if cfg.output else trained.folder / "export" / "model.onnx"
    json_file, card_file = file.with_suffix(".json"), file.with_suffix(".md")
    for written, mark in ((file, "separation"), (json_file, '"separation"'), (card_file, CARD)):
        if written.exists() and mark.encode() not in written.read_bytes():
            raise UsageError(
                f"{written}: not written by an export, so it is not replaced; move it, or choose another output"
            )
    file.parent.mkdir(parents=True, exist_ok=True)
    description = metadata(trained, cfg.samples)
    with whole_file(file, ".onnx") as temporary:
        write_graph(Graph(trained.task, cfg.samples == "int16"), temporary, cfg.opset, description)
        difference = largest_difference(trained.task, temporary, cfg.samples)
        if not difference <= cfg.tolerance:
            raise UsageError(
                f"{trained.folder}: not written: the exported model's log-probabilities differ from torch's by "
                f"{difference:.2g} nats, expected at most tolerance={cfg.tolerance:g}"
            )
        write_json(json_file, description)
        write(card_file, card(trained, file.name))
    size = file.stat().st_size / 1e6
    print(f"{file}: {size:.1f} MB, log-probabilities within {difference:.1g} nats of torch's", file=sys.stderr)
    print(f"model card: {card_file}", file=sys.stderr)
    print(file)
    return file


def metadata(trained: Trained, samples: str) -> dict[str, object]:
    """Return the metadata that programs need to run the model. "separation": symbol between double letters, or ""."""
    run = read_environment(trained.folder).id if (trained.folder / ENVIRONMENT).is_file() else None
    return {
        "run": run or trained.folder.resolve().name,
        "checkpoint": trained.checkpoint.name,
        "symbols": ["", *trained.task.alphabet.symbols],
        "blank": 0,
        "separation": trained.task.alphabet.separation,
        "sample_rate": SAMPLE_RATE,
        "samples": samples,
        "features": OmegaConf.to_container(trained.cfg.features, resolve=True),
    }


class ConvolvedSpectrum(nn.Module):
    """Compute power spectra (B, T, F) of waveforms (B, S) by convolution, equal to PowerSpectrum's up to rounding.

    The convolution's stride is the hop, and its kernels are the windowed cosines and sines. The kernels are computed in
    float64 and also subtract each frame's mean.
    """

    kernels: torch.Tensor

    def __init__(self, spectrum: PowerSpectrum) -> None:
        super().__init__()
        self.hop, self.frames = spectrum.hop, spectrum.frames
        size, window = spectrum.window_size, spectrum.window.double().cpu()
        impulses = torch.eye(size, dtype=torch.float64)
        centred = impulses - 1 / size  # each row is an impulse minus its mean
        previous = torch.cat([centred[:, :1], centred[:, :-1]], dim=1)  # pre-emphasis repeats the first sample
        emphasised = centred - spectrum.preemphasis * previous
        transformed = torch.fft.rfft(emphasised * window, n=spectrum.fft_size)  # (size, F)
        kernels = torch.cat([transformed.real, transformed.imag], dim=1).T
        self.register_buffer("kernels", kernels[:, None].float())

    def forward(self, waveforms: torch.Tensor) -> torch.Tensor:
        parts = conv1d(waveforms[:, None], self.kernels, stride=self.hop)
        real, imaginary = parts.chunk(2, dim=1)
        return (real.square() + imaginary.square()).transpose(1, 2)


GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}
"""For each cell, the index of each gate in torch's weights, in ONNX's gate order (LSTM: i o f c, GRU: z r h)."""

Attributes = dict[str, int | float | str | bool | Sequence[int] | Sequence[float] | Sequence[str] | Sequence[bool]]
"""Attributes of an ONNX operator, in the form that torch.onnx.ops.symbolic accepts."""


class Recurrence(nn.Module):
    """Replace one direction of a recurrent layer with an ONNX operator: x (B, T, D) and lengths (B,) → (B, T, H).

    This module is for export only: outside an export, it returns zeros. The constructor raises UsageError if a layer
    such as min_gru has no torch module `cell`. If a layer computes more than its cell, `largest_difference` is large.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        cell = getattr(layer, "cell", None)
        if not isinstance(cell, nn.RNNBase):
            raise UsageError(f"rnn {type(layer).__name__}: ONNX has no such layer; expected lstm, gru, rnn or rnn_relu")
        (weights,) = cell.all_weights
        gates = GATES[cell.mode]
        inputs, recurrent, input_bias, recurrent_bias = (
            torch.cat([weight.detach().chunk(len(gates))[gate] for gate in gates]) for weight in weights
        )
        self.weight = nn.Parameter(inputs[None])  # (1 direction, gates · H, D)
        self.recurrent = nn.Parameter(recurrent[None])
        self.bias = nn.Parameter(torch.cat([input_bias, recurrent_bias])[None])
        self.operator = cell.mode.split("_")[0]
        self.hidden_size = cell.hidden_size
        self.attributes: Attributes = {"hidden_size": cell.hidden_size}
        if cell.mode == "GRU":
            self.attributes["linear_before_reset"] = 1  # torch and cuDNN apply the reset gate after the linear layer
        if cell.mode == "RNN_RELU":
            self.attributes["activations"] = ["Relu"]
        if (ceiling := getattr(layer, "ceiling", None)) is not None:
            self.attributes["clip"] = float(ceiling)  # clips the ReLU's input, and thereby its output

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        y = torch.onnx.ops.symbolic(
            f"::{self.operator}",
            (x.transpose(0, 1), self.weight, self.recurrent, self.bias),
            attrs=self.attributes,
            dtype=x.dtype,
            shape=(x.shape[1], 1, x.shape[0], self.hidden_size),
        )
        return y.squeeze(1).transpose(0, 1)  # (T, 1, B, H) → (B, T, H)


class Graph(nn.Module):
    """The exported network: audio (B, S), lengths (B,) in samples → log_probs (B, T, V), lengths (B,) in frames.

    Audio is float in -1..1, or int16 if `int16` is true. Samples beyond an utterance's length are ignored. The network
    appends zeros to get a frame even from a single sample, which makes T a few frames larger than the largest length.
    """

    def __init__(self, task: CTCTask, int16: bool) -> None:
        super().__init__()
        self.features = copy.deepcopy(task.features).float().cpu()
        self.model = without_auxiliary(task.model).float().cpu()
        self.scale = 1 / 32768 if int16 else 1.0
        self.padding = next(n for n in range(1, 1 << 20) if task.output_frames(torch.tensor([n])) > 0)
        replace(self.features, PowerSpectrum, ConvolvedSpectrum)
        for layer in self.model.modules():
            if isinstance(layer, Directions):
                layer.forwards = Recurrence(layer.forwards)
                layer.backwards = None if layer.backwards is None else Recurrence(layer.backwards)
        self.eval().requires_grad_(False)

    def forward(self, audio: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features, frames = self.features(pad(audio.float() * self.scale, (0, self.padding)), lengths)
        normalised = normalise_utterances(features, frames, getattr(self.features, "variance", True))
        logits, frames = self.model(normalised, frames)
        return logits.log_softmax(dim=-1), frames


def replace(module: nn.Module, kind: type[nn.Module], by: type[nn.Module]) -> None:
    """Replace, in place, every submodule of type `kind` with the module that `by` builds from the submodule."""
    for name, child in list(module.named_children()):
        if isinstance(child, kind):
            setattr(module, name, by(child))
        else:
            replace(child, kind, by)


def write_graph(graph: Graph, file: Path, opset: int | None, description: Mapping[str, object]) -> None:
    """Write the graph to an ONNX file, for any batch size and length. description: metadata to store in the file."""
    batch, samples = "batch", "samples"
    lengths = torch.tensor([2 * SAMPLE_RATE, SAMPLE_RATE])
    audio = torch.zeros(2, 2 * SAMPLE_RATE, dtype=torch.float32 if description["samples"] == "float" else torch.int16)
    with _quiet_single_thread(), torch.no_grad():
        program = torch.onnx.export(
            graph,
            (audio, lengths),
            input_names=["audio", "lengths"],
            output_names=["log_probs", "frames"],
            dynamic_shapes={"audio": {0: batch, 1: samples}, "lengths": {0: batch}},
            dynamo=True,
            opset_version=opset,
            verbose=False,
        )
    assert program is not None
    for key, value in description.items():
        program.model.metadata_props[key] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    program.save(file, external_data=False)


@contextmanager
def _quiet_single_thread() -> Iterator[None]:
    """Silence the exporter's warnings about missing packages and axis names, and limit torch to one thread.

    The exporter cannot trace the threads that run the two directions of a recurrent layer.
    """
    log, threads = logging.getLogger("torch.onnx"), torch.get_num_threads()
    level = log.level
    log.setLevel(logging.ERROR)
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*LeafSpec.*", FutureWarning)
            warnings.filterwarnings("ignore", ".*The axis name: .* will not be used", UserWarning)
            yield
    finally:
        torch.set_num_threads(threads)
        log.setLevel(level)


def largest_difference(task: CTCTask, file: Path, samples: str) -> float:
    """Return the largest difference, in nats, between the log-probabilities of torch and of the exported model.

    The input is three bursts of noise, one of them a single sample long. torch processes each burst separately, while
    the exported model processes all three as one batch.
    """
    lengths = torch.tensor([3 * SAMPLE_RATE + 77, SAMPLE_RATE, 1])
    generator = torch.Generator().manual_seed(0)
    audio = torch.zeros(3, int(lengths.max()), dtype=torch.int16)
    for row, length in zip(audio, lengths.tolist(), strict=True):
        swell = torch.linspace(0, 9, length).sin()
        row[:length] = (4000 * swell * torch.randn(length, generator=generator)).clamp(-32768, 32767)
    inputs = audio.numpy() if samples == "int16" else (audio.float() / 32768).numpy()
    session = onnxruntime.InferenceSession(file)
    outputs, frames = session.run(None, {"audio": inputs, "lengths": lengths.numpy()})
    largest = 0.0
    for row, length, exported, count in zip(audio, lengths.tolist(), outputs, frames.tolist(), strict=True):
        with torch.inference_mode():
            log_probs, valid = task(unlabelled_batch([row[:length].numpy()]))
        expected = log_probs[0, : int(valid[0])]
        if count != len(expected):
            return float("inf")
        if count:
            difference = float((expected - torch.from_numpy(exported[:count])).abs().max())
            largest = max(largest, difference if math.isfinite(difference) else math.inf)  # max(0, nan) would be 0
    return largest
