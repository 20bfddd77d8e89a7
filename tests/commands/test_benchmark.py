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
