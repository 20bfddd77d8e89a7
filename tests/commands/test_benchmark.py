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


def test_lstm_compares_frameworks_with_equal_numbers(corpora, tmp_path):
    few = ["benchmark.steps=3", "benchmark.warmup=1", "benchmark.scale=0.04", "benchmark.threads=1"]
    chosen = ["benchmark.configurations=[deep_ctc_long]", "benchmark.only=[torch_lstm,torch_packed,jax_scan]"]
    done = run(["src/benchmark.py", "benchmark=lstm", *few, *chosen], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(tmp_path)
    found = json.loads((folder / "result.json").read_text())
    rows, numbers = found["steps"], found["numbers_and_memory"]
    assert [row["implementation"] for row in rows] == ["torch_packed", "jax_scan"]
    slowest = max(row["ms"] for row in rows)
    for row in rows:
        assert row["x slowest"] == pytest.approx(slowest / row["ms"])
        assert row["measurements"] == 3
    assert all(max(row["logits differ"], row["loss differs"]) < 1e-4 < row["peak GB"] for row in numbers)
    assert any(line.startswith("4x320/CTC-long: torch_lstm not measured") for line in found["notes"])
    assert (folder / "training-step-of-lstm-networks.png").is_file()


def test_a_wrong_implementation_is_one_line(corpora, tmp_path):
    done = run(["src/benchmark.py", "benchmark=lstm", "benchmark.only=[theano]"], corpora, tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "benchmark.only=['theano']: expected null for all, or a list of some: torch_basic, torch_fused" in line
