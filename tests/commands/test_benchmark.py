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
