"""The commands that compare frameworks, in miniature, with every framework."""

import json
from pathlib import Path

import pytest

from tests.commands.test_benchmark import NETWORKS, TOOLKIT, measured


def test_networks_are_measured_in_every_framework(corpora: Path, tmp_path: Path) -> None:
    options = ["benchmark.only=[fcn5]", "benchmark.threads=[1,2]", "benchmark.batches=[1]", "gpus=0"]
    _, folder, result = measured(corpora, tmp_path, "networks", *NETWORKS, *options, "benchmark.together=2")
    points = [(row["framework"], row["threads"], row["batch"]) for row in result["steps"]]
    names = ("torch", "jax", "keras_tensorflow", "keras_jax")
    assert points == [(name, threads, 64) for name in names for threads in (1, 2)], result["notes"]
    published = [name for name in ("Caffe", "CNTK", "TF", "Torch") for _ in ("desktop", "server")]
    assert [row["framework"] for row in result["scaling"]] == [*names, *published]
    assert "desktop, published" in (folder / "report.md").read_text()


def test_lstm_compares_frameworks_with_equal_numbers(corpora: Path, tmp_path: Path) -> None:
    few = ["benchmark.steps=3", "benchmark.warmup=1", "benchmark.scale=0.04", "benchmark.threads=1"]
    chosen = "benchmark.only=[torch_packed,jax_scan,keras_tensorflow,keras_jax]"
    _, _, result = measured(
        corpora, tmp_path, "lstm", *few, chosen, "benchmark.configurations=[deep_ctc_long]", "gpus=0"
    )
    names = ["torch_packed", "jax_scan", "keras_tensorflow", "keras_jax"]
    assert [row["implementation"] for row in result["steps"]] == names, result["notes"]
    slowest = max(row["ms"] for row in result["steps"])
    assert [row["x slowest"] for row in result["steps"]] == pytest.approx(
        [slowest / row["ms"] for row in result["steps"]]
    )
    numbers = result["numbers_and_memory"]
    assert all(max(row["logits differ"], row["loss differs"]) < 1e-4 < row["peak GB"] for row in numbers)


def test_toolkit_compares_engines_and_workers_with_the_paper(corpora: Path, tmp_path: Path) -> None:
    options = [f"benchmark.{key}={value}" for key, value in TOOLKIT.items()]
    _, folder, result = measured(corpora, tmp_path, "toolkit", *options)
    ours = result["toolkits"][:5]
    assert [row["toolkit"] for row in ours] == [
        "project_loop", "minimal", "plain_loop", "returnn", "returnn_tensorflow",
    ]  # fmt: skip
    for row, learning in zip(ours, result["learning"], strict=True):
        assert learning["frames per epoch"] == 3 * 40
        assert row["frames/s"] == pytest.approx(3 * 40 / row["s per epoch"])
        assert row["peak GB"] > 0.1
    kept = json.loads((folder / "result.json").read_text())
    assert any("returnn" in line and "tensorflow 2" in line for line in kept["notes"])
