"""Export of a trained run to ONNX, with a model card in Markdown for users of the file."""

import json
import logging
import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import onnxruntime
import torch
from omegaconf import DictConfig, OmegaConf

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.batch import unlabelled_batch
from asr_ablations.runs.identity import of_the_experiment, without_folder
from asr_ablations.runs.layout import ENVIRONMENT, SUMMARY
from asr_ablations.runs.reader import read_data, read_environment, read_overrides, read_summary
from asr_ablations.training.task import CTCTask
from asr_ablations.training.trained_model import Trained, load_run
from asr_serving.onnx_graph import Graph
from asr_verdicts.errors import UsageError
from asr_verdicts.files import whole_file, write, write_json
from asr_verdicts.record import NO_SUMMARY, Environment, SetContent, Summary
from asr_verdicts.terminal import harmless

UNKNOWN = "not recorded"
CARD = "<!-- Delete this line to keep your changes: export.py replaces a card that has it. -->"


def card(trained: Trained, file: str) -> str:
    """Write the card of an exported run. Values missing in an unfinished run are "not recorded". file: its name."""
    finished = (trained.folder / SUMMARY).is_file()
    summary = read_summary(trained.folder) if finished else NO_SUMMARY
    environment = read_environment(trained.folder) if (trained.folder / ENVIRONMENT).is_file() else Environment()
    sets = read_data(trained.folder).sets if finished else {}
    parameters = sum(p.numel() for p in trained.task.parameters())
    code, corpus, characters = environment.code, trained.data.corpus, trained.task.alphabet.characters
    spelled = " ".join("space" if character == " " else f"`{character}`" for character in characters)
    settings = [without_folder(word) for word in of_the_experiment(read_overrides(trained.folder))]
    size, train = f"Its size is {UNKNOWN}.", sets.get("train")
    if train is not None:
        size = f"{train.hours:.2f} hours, {train.utterances:,} utterances of {train.speakers or UNKNOWN} speakers, "
        size += f"{train.vocabulary:,} different words."
    lines = [
        f"# {file}",
        "",
        f"Speech recognition by CTC: {parameters / 1e6:.2f} million parameters, waveforms at 16 kHz in, "
        f"log-probabilities of {len(characters)} characters out ({spelled}).",
        "",
        "## Training",
        "",
        f"- Data: {type(corpus).__name__}, language `{corpus.language}`. {size}",
        f"- Rights in the data: {corpus.licence}.",
        f"- Settings: {' '.join(f'`{word}`' for word in settings) or 'the defaults'}; "
        f"{UNKNOWN if summary.epochs is None else summary.epochs} epochs, checkpoint `{trained.checkpoint.name}`.",
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
        f"{100 * result.wer:.2f} | {100 * (result.cer or 0.0):.2f} |"
        for name, result in summary.sets.items()
    ]
    text = "Of the last checkpoint, decoded greedily without language model unless the settings name another decoder."
    return [text, "", "| set | speakers | words | WER % | CER % |", "| --- | ---: | ---: | ---: | ---: |", *rows]


def _list_limits(train: SetContent | None) -> list[str]:
    lines = ["- The output has the form of the training texts: the characters above, one case, no punctuation."]
    if train is not None:
        lines.append(
            f"- It was trained on {train.speakers or UNKNOWN} speakers and {train.vocabulary:,} words. Expect much "
            "higher error rates for other voices, rooms, microphones, languages or words."
        )
    lines.append("- Confidences are not calibrated. If all are low, the speech is unlike the training data.")
    return lines


def export(cfg: DictConfig) -> Path:
    """Write the ONNX file and return its path. Raises UsageError if the run or the output does not allow it."""
    trained = load_run(str(cfg.run), cfg.checkpoint)
    file = Path(str(cfg.output)) if cfg.output else trained.folder / "export" / "model.onnx"
    for ending, mark in ((".json", '"separation"'), (".md", CARD)):
        neighbour = file.with_suffix(ending)
        if neighbour.exists() and mark not in neighbour.read_text(encoding="utf-8", errors="replace"):
            raise UsageError(
                f"{neighbour}: not written by an export, so it is not replaced; move it, or choose another output"
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
        write_json(file.with_suffix(".json"), description)
        write(file.with_suffix(".md"), card(trained, file.name))
    size = file.stat().st_size / 1e6
    print(f"{file}: {size:.1f} MB, log-probabilities within {difference:.1g} nats of torch's", file=sys.stderr)
    print(f"model card: {file.with_suffix('.md')}", file=sys.stderr)
    print(file)
    return file


def metadata(trained: Trained, samples: str) -> dict[str, object]:
    """Return the data that a program needs to use the model. separation: the symbol between double letters, or ""."""
    run = read_environment(trained.folder).id if (trained.folder / ENVIRONMENT).is_file() else None
    return {
        "run": run or trained.folder.resolve().name,
        "checkpoint": trained.checkpoint.name,
        "symbols": ["", *trained.task.alphabet.characters],
        "blank": 0,
        "separation": trained.task.alphabet.separation,
        "sample_rate": SAMPLE_RATE,
        "samples": samples,
        "features": OmegaConf.to_container(trained.cfg.features, resolve=True),
    }


def write_graph(graph: Graph, file: Path, opset: int | None, description: Mapping[str, object]) -> None:
    """Write the graph for any batch size and length, with `description` as metadata (JSON except for texts)."""
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
    """Use one thread, so that a layer's two directions run one after the other: the exporter cannot trace threads.
    Silence its messages about missing packages and axes with equal names.
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
    """Return the largest difference, in nats, between torch's log-probabilities and the file's.

    The input is three bursts of noise, one of them a single sample. torch gets each alone, and the file all together.
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
            largest = max(largest, difference if math.isfinite(difference) else math.inf)  # max(0, nan) is 0
    return largest
