"""The search of sweeps/hyperparameters.yaml, shrunken."""

import json

import pytest
import yaml

from asr_ablations.runs.sweep_history import logarithmic
from tests.helpers.command import SHORT_SPEECH, run, run_folders

TINY = [*SHORT_SPEECH, "max_epochs=1", "width=choice(8,16)", "layers=1", "logger=csv"]


@pytest.mark.slow
def test_a_search_finds_its_best_and_the_same_command_trains_nothing(corpora, tmp_path):
    options = [*TINY, "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=1"]
    arguments = ["src/train.py", "-m", "-cd", "sweeps", "-cn", "hyperparameters", *options]
    done = run(arguments, corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    folders = run_folders(tmp_path)
    rates = {f: json.loads((f / "summary.json").read_text())["best_validation_wer"] for f in folders}
    assert len(rates) == 2
    assert logarithmic(folders[0].parent) == {"optimizer.lr"}
    best_run = yaml.safe_load((folders[0].parent / "best.yaml").read_text())
    assert best_run["best_value"] == min(rates.values())
    best = [
        yaml.safe_load((folder / "config.yaml").read_text())
        for folder in folders
        if rates[folder] == best_run["best_value"]
    ]
    assert best_run["best_params"]["optimizer.lr"] in [config["optimizer"]["lr"] for config in best]
    assert 3e-4 <= best_run["best_params"]["optimizer.lr"] <= 1e-2

    before = {folder: (folder / "status.json").read_bytes() for folder in folders}
    assert run(arguments, corpora, tmp_path).returncode == 0
    assert {folder: (folder / "status.json").read_bytes() for folder in run_folders(tmp_path)} == before


def test_the_plan_of_a_search_is_of_its_first_runs(corpora, tmp_path):
    options = [*TINY, "hydra.sweeper.n_trials=3", "hydra.sweeper.n_jobs=2", "plan=true"]
    done = run(["src/train.py", "-m", "-cd", "sweeps", "-cn", "hyperparameters", *options], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing was trained" in done.stdout
    assert "these are the first 2 of its 3 runs" in done.stdout
    assert "Traceback" not in done.stderr
    assert run_folders(tmp_path) == []
