"""python src/benchmark.py, in miniature."""

import json

import pytest
from command import SHRUNKEN, run, run_folders


def test_loop_compares_lightning_with_a_bare_loop(corpora, tmp_path):
    options = ["benchmark=loop", "benchmark.steps=3", "benchmark.pairs=1", *SHRUNKEN]
    done = run(["src/benchmark.py", *options], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(tmp_path)
    found = json.loads((folder / "result.json").read_text())
    assert found["ratio"] == pytest.approx(found["lightning_seconds"] / found["bare_seconds"])
    assert "ratio" in done.stdout


def test_utilisation_compares_steps_with_and_without_the_record(corpora, tmp_path):
    options = ["benchmark=utilisation", "benchmark.steps=2", "benchmark.pairs=6", "benchmark.interval=0.02"]
    done = run(["src/benchmark.py", *options, *SHRUNKEN], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(tmp_path)
    found = json.loads((folder / "result.json").read_text())
    for clock in ("seconds", "cpu"):
        assert 0 < found[f"{clock}_ratio_low"] <= found[f"{clock}_ratio"] <= found[f"{clock}_ratio_high"]
    assert found["interval"] == 0.02


@pytest.mark.parametrize(("key", "value"), [("pairs", 5), ("steps", 0), ("interval", 0)])
def test_a_wrong_value_of_it_is_one_line(key, value, corpora, tmp_path):
    done = run(["src/benchmark.py", "benchmark=utilisation", f"benchmark.{key}={value}", *SHRUNKEN], corpora, tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"benchmark.{key}={value}: expected" in line


def test_input_compares_caches_workers_and_the_model(corpora, tmp_path):
    options = ["benchmark=input", "benchmark.batches=3", "benchmark.repeats=1", "benchmark.workers=[0,1]", *SHRUNKEN]
    done = run(["src/benchmark.py", *options], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(tmp_path)
    found = json.loads((folder / "result.json").read_text())
    rows = found["rows"]
    assert [(r["cache"], r["workers"]) for r in rows] == [(c, w) for c in ("none", "pcm", "features") for w in (0, 1)]
    for row in rows:
        assert row["over_model"] == pytest.approx(row["audio_hours_per_second"] / found["model_audio_hours_per_second"])
        assert row["times_real_time_a_core"] == pytest.approx(3600 * row["audio_hours_per_second"])
    assert all(word in done.stdout for word in ("pcm", "features", "real time", "result in"))


def test_a_wrong_number_of_workers_is_told(corpora, tmp_path):
    done = run(["src/benchmark.py", "benchmark=input", "benchmark.workers=[0,-1]"], corpora, tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: benchmark.workers=[0, -1]: expected whole numbers, 0 or more\n"


@pytest.mark.slow
def test_launch_compares_three_ways_to_start_an_arm(corpora, tmp_path):
    options = ["benchmark=launch", "benchmark.arms=2", *SHRUNKEN, "max_epochs=1"]
    done = run(["src/benchmark.py", *options], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(tmp_path)
    found = json.loads((folder / "result.json").read_text())
    for way in ("forked", "processes", "in_one_process"):
        assert 0 < min(found[f"{way}_median"], found[f"{way}_first"]) < found[f"{way}_all"]
    assert found["processes_to_forked"] == pytest.approx(found["processes_median"] / found["forked_median"])


def test_step_prints_a_row_for_each_layer_precision_and_batch(corpora, tmp_path):
    options = ["benchmark=step", "benchmark.precisions=[32,bf16]", "benchmark.batches=[4]", "benchmark.steps=1"]
    few = ["benchmark.repeats=1", "benchmark.frames=[8,16]"]
    done = run(["src/benchmark.py", *options, *few, *SHRUNKEN], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(tmp_path)
    found = json.loads((folder / "result.json").read_text())
    points = [("lstm", 32), ("lstm", "bf16"), ("gru", 32), ("gru", "bf16")]
    assert [(row["rnn"], row["precision"]) for row in found["steps"]] == points
    for row in found["steps"]:
        assert row["R"] > 0
        assert row["MFU %"] == pytest.approx(100 * row["GFLOP/s"] / row["product GFLOP/s"])
        assert row["port / ours"] > 0
    assert all(row[f"{kind} %"] > 0 for row in found["parts"] for kind in ("conv", "rnn", "norm", "ctc"))


def test_a_wrong_grid_of_steps_is_one_line(corpora, tmp_path):
    done = run(["src/benchmark.py", "benchmark=step", "benchmark.batches=[0]", *SHRUNKEN], corpora, tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "benchmark.batches=[0]: expected" in line


NETWORKS = ["benchmark=networks", "benchmark.shrink=64", "benchmark.steps=2", "benchmark.warmup=1"]


def test_networks_are_measured_by_framework_threads_and_samples(corpora, tmp_path):
    options = ["benchmark.only=[fcn5,torch,jax]", "benchmark.threads=[1,2]", "benchmark.batches=[1]", "gpus=0"]
    done = run(["src/benchmark.py", *NETWORKS, *options, "benchmark.together=2"], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(tmp_path)
    found = json.loads((folder / "result.json").read_text())
    (size,) = found["sizes"]
    assert size["parameters"] == sum(a * b + b for a, b in [(418, 15), (15, 15), (15, 15), (15, 418)])
    points = [(row["framework"], row["threads"], row["batch"]) for row in found["steps"]]
    assert points == [(name, threads, 64) for name in ("torch", "jax") for threads in (1, 2)], found["notes"]
    for row in found["steps"]:
        assert row["samples/s"] == pytest.approx(1000 * row["batch"] / row["ms"])
        assert row["GFLOP/s"] == pytest.approx(row["samples/s"] * size["GFLOP a sample"])
    for row in found["scaling"][:2]:
        one, two = (r["ms"] for r in found["steps"] if r["framework"] == row["framework"])
        assert (row["machine"], row["1 to 2 threads"]) == ("this machine", pytest.approx(one / two))
    assert [row["framework"] for row in found["scaling"][2::2]] == ["Caffe", "CNTK", "TF", "Torch"]
    assert "desktop, published" in (folder / "report.md").read_text()
    assert (folder / "fcn5-by-threads.png").exists()


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("only", "[caffe]", "=caffe: expected fcn5, fcn8, alexnet, resnet50, lstm32, lstm64, torch, jax"),
        ("threads", "[0]", "=[0]: expected whole numbers, 1 or more"),
        ("shrink", "0", "=0: expected a whole number, 1 or more"),
    ],
)
def test_a_wrong_value_of_networks_is_one_line(key, value, expected, corpora, tmp_path):
    done = run(["src/benchmark.py", *NETWORKS, f"benchmark.{key}={value}"], corpora, tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"benchmark.{key}{expected}" in line
