"""export(cfg): load a run, export its graph, compare its numbers with torch's and write the files."""

import json
import logging
import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnxruntime
import torch
from omegaconf import DictConfig, OmegaConf

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.batch import unlabelled_batch
from asr_ablations.onnx_export.card import card
from asr_ablations.onnx_export.graph import Graph
from asr_ablations.runs.layout import ENVIRONMENT
from asr_ablations.runs.reader import read_environment
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import Json, whole_file, write, write_json
from asr_ablations.training.load import Trained, load_run
from asr_ablations.training.task import CTCTask


def export(cfg: DictConfig) -> Path:
    """Return the written file. Raises UsageError for a run that cannot be loaded or exported."""
    trained = load_run(str(cfg.run), cfg.checkpoint)
    file = Path(str(cfg.output)) if cfg.output else trained.folder / "export" / "model.onnx"
    file.parent.mkdir(parents=True, exist_ok=True)
    description = metadata(trained, cfg.samples)
    with whole_file(file, ".onnx") as temporary:
        write_graph(Graph(trained.task, cfg.samples == "int16"), temporary, cfg.opset, description)
        difference = largest_difference(trained.task, temporary, cfg.samples)
        if not difference <= cfg.tolerance:
            raise UsageError(
                f"{trained.folder}: not written: the exported model's log-probabilities are {difference:.2g} nats "
                f"away from torch's, expected tolerance={cfg.tolerance:g} at the most"
            )
        write_json(file.with_suffix(".json"), description)
        write(file.with_suffix(".md"), card(trained, file.name))
    size = file.stat().st_size / 1e6
    print(f"{file}: {size:.1f} MB, log-probabilities within {difference:.1g} nats of torch's", file=sys.stderr)
    print(f"model card: {file.with_suffix('.md')}", file=sys.stderr)
    print(file)
    return file


def metadata(trained: Trained, samples: str) -> Json:
    """Return what a program needs to use the model, and its origin.

    symbols: in the order of the outputs; separation: the symbol that stands between double letters and is not a letter,
    or "".
    """
    run = read_environment(trained.folder).get("id") if (trained.folder / ENVIRONMENT).is_file() else None
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


def write_graph(graph: Graph, file: Path, opset: int | None, description: Json) -> None:
    """Write the graph for any batch size and length; metadata: the `description`, text as it is, the rest as JSON."""
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
    """Use one thread, in which the two directions of a layer run one after the other: the exporter cannot trace more.
    Silence its messages about missing packages and about axes that share a name.
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
    """Return the largest difference, in nats, between the log-probabilities of torch and of the file.

    The input is three bursts of noise, one long, one short and one of a single sample: each alone in torch, all
    together in the file.
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
        expected = _single_log_probs(task, row[:length])
        if count != len(expected):
            return float("inf")
        if count:
            difference = float((expected - torch.from_numpy(exported[:count])).abs().max())
            largest = max(largest, difference if math.isfinite(difference) else math.inf)  # max(0, nan) is 0
    return largest


def _single_log_probs(task: CTCTask, samples: torch.Tensor) -> torch.Tensor:
    """Return torch's log-probabilities (T, V) of one waveform, int16 (S,)."""
    with torch.inference_mode():
        log_probs, lengths = task(unlabelled_batch([samples.numpy()]))
    return log_probs[0, : int(lengths[0])]
