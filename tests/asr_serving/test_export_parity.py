"""Exported models under onnxruntime against torch, on real speech."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from asr_ablations.data.audio import duration, read
from asr_ablations.data.batch import Batch
from asr_ablations.training.assembly import assemble
from asr_ablations.training.task import CTCTask
from asr_ablations.training.trained_model import load_run
from asr_serving.export import Graph, card, largest_difference, metadata, write_graph
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose, shared_data, standing_corpus

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
DESCRIPTION = {"samples": "float", "run": "x"}


def small_task(*overrides: str) -> CTCTask:
    """A small model with running statistics that are not the initial ones."""
    task, _ = assemble(compose("width=48", "layers=2", *overrides), standing_corpus())
    generator = torch.Generator().manual_seed(1)
    for name, buffer in task.model.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand(buffer.shape, generator=generator) + (0.5 if "variance" in name else -0.5))
    return task.eval()


@pytest.fixture(scope="module")
def speech() -> list[np.ndarray]:
    """Five utterances of AN4, int16, of different lengths."""
    files = sorted(shared_data("an4/AN4/test").rglob("*.flac"))[::13]
    return [read(file, 0, duration(file)) for file in files]


def expected(task: CTCTask, samples: np.ndarray) -> torch.Tensor:
    """torch's log-probabilities (T, V) of an utterance alone."""
    none = torch.zeros(1, dtype=torch.long)
    batch = Batch(torch.from_numpy(samples), torch.tensor([len(samples)]), none[:0], none, ["0"], [""])
    with torch.inference_mode():
        log_probs, lengths = task(batch)
    return log_probs[0, : int(lengths[0])]


@pytest.mark.parametrize(
    "overrides",
    [
        ["rnn=gru", "model=itu", "model.directions=sum", "features=logmel_mfcc"],
        ["model=conformer"],
    ],
    ids=" ".join,
)
def test_the_graph_gives_torchs_log_probabilities(
    tmp_path: Path, speech: list[np.ndarray], overrides: list[str]
) -> None:
    """An export refuses a graph that differs from torch, so an operator of each kind is enough."""
    task = small_task("layers=1", *overrides)
    write_graph(Graph(task, False), tmp_path / "model.onnx", None, DESCRIPTION)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for utterances in (speech, [speech[0], speech[1][:1], speech[2][:0]]):
        lengths = np.array([len(u) for u in utterances])  # one padded batch of all, garbage behind the lengths
        audio = np.random.default_rng(0).normal(0, 0.3, (len(utterances), lengths.max())).astype(np.float32)
        for row, samples in zip(audio, utterances, strict=True):
            row[: len(samples)] = samples / np.float32(32768)
        outputs, frames = session.run(None, {"audio": audio, "lengths": lengths})
        for samples, output, count in zip(utterances, outputs, frames, strict=True):
            reference = expected(task, samples)
            assert count == len(reference)
            np.testing.assert_allclose(output[:count], reference.numpy(), rtol=0, atol=1e-4)


def test_a_layer_missing_in_onnx_is_refused() -> None:
    with pytest.raises(UsageError, match="MinGRU: ONNX has no such layer; expected lstm, gru, rnn"):
        Graph(small_task("rnn=min_gru"), False)


def test_training_continues_with_the_same_modules() -> None:
    task = small_task("rnn=lstm")
    before = {key: value.clone() for key, value in task.state_dict().items() if isinstance(value, torch.Tensor)}
    Graph(task, False)
    after = task.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())
    assert all(parameter.requires_grad for parameter in task.model.parameters())


def test_int16_samples_and_metadata(tmp_path: Path, memorised_run: Path, tiny_corpus: Path) -> None:
    """A trained model: the text follows from the file's own alphabet. Another one is detected, and NaN, too."""
    trained = load_run(memorised_run)
    description = metadata(trained, "int16")
    write_graph(Graph(trained.task, True), tmp_path / "model.onnx", None, description)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    kept = session.get_modelmeta().custom_metadata_map
    assert kept["run"] == json.loads((memorised_run / "environment.json").read_text())["id"]
    assert json.loads(kept["features"]) == description["features"]
    file = sorted(tiny_corpus.rglob("train/*/1/*.flac"))[0]
    samples = read(file, 0, duration(file))
    outputs, frames = session.run(None, {"audio": samples[None], "lengths": np.array([len(samples)])})
    best = outputs[0, : frames[0]].argmax(axis=-1)
    symbols = json.loads(kept["symbols"])
    text = "".join(symbols[s] for s, before in zip(best, [0, *best], strict=False) if s != before)
    assert text == file.parent.joinpath("10-1.trans.txt").read_text().splitlines()[0].partition(" ")[2].lower()
    assert largest_difference(trained.task, tmp_path / "model.onnx", "int16") < 1e-4
    for factor, least in ((1.1, 0.01), (math.nan, math.inf)):  # max(0, nan) is 0
        with torch.no_grad():
            for parameter in trained.task.parameters():
                parameter.mul_(factor)
        assert largest_difference(trained.task, tmp_path / "model.onnx", "int16") >= least


def test_the_card_says_what_the_run_measured(memorised_run: Path, tmp_path: Path) -> None:
    trained = load_run(memorised_run)
    text = card(trained, "model.onnx")
    for name, rates in json.loads((memorised_run / "summary.json").read_text())["sets"].items():
        assert f"| {name} | " in text
        assert f" | {100 * rates['wer']:.2f} | {100 * rates['cer']:.2f} |" in text
    train = json.loads((memorised_run / "data.json").read_text())["sets"]["train"]
    assert f"{train['utterances']:,} utterances of {train['speakers']:,} speakers" in text
    assert "CC BY 4.0" in text  # what `data=librispeech` says of its recordings
    assert "`width=32`" in text
    assert "outputs=" not in text, "nothing of the machine: a card is published"
    assert "data.root=" not in text
    for kept in ("config.yaml", "overrides", "checkpoints"):
        (tmp_path / kept).symlink_to(memorised_run / kept)
    assert "Not recorded, because the run has not ended." in card(trained._replace(folder=tmp_path), "model.onnx")
