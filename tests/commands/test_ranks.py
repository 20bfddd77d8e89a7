"""Several ranks under torchrun, here on the CPU: one record, every utterance once, the same weights everywhere."""

import csv
import json

import pytest
import yaml

from asr_ablations.runs.process import child_environment, command
from tests.helpers.command import REPOSITORY, SHRUNKEN, clean_environment, run, run_folders
from tests.helpers.interpreter import program


@pytest.mark.slow
def test_two_ranks_make_one_record(corpora, tmp_path):
    first = tmp_path / "one"
    assert run(["src/train.py", *SHRUNKEN, "logger=csv", "norm=none"], corpora, first).returncode == 0
    (single,) = run_folders(first)
    config = yaml.safe_load((single / "config.yaml").read_text())
    frozen = tmp_path / "frozen.yaml"
    frozen.write_text(yaml.safe_dump({**config, "outputs": str(tmp_path / "two"), "sweep": "ranks"}))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    settings = {"PYTHONPATH": child_environment()["PYTHONPATH"], "TMPDIR": str(temporary)}
    environment = clean_environment(corpora, tmp_path, **settings)
    done = program(command(REPOSITORY / "src" / "train.py", frozen, devices=2), environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run folder") == 1
    assert [path for path in temporary.iterdir() if "torchinductor" not in path.name] == []
    (folder,) = run_folders(tmp_path / "two")
    assert json.loads((folder / "status.json").read_text())["status"] == "done"
    with (folder / "utterances.csv").open(newline="") as file:
        ids = [(row["set"], row["id"]) for row in csv.DictReader(file)]
    assert len(ids) == len(set(ids))
    one, two = (json.loads((f / "summary.json").read_text()) for f in (single, folder))
    assert len(ids) == sum(found["utterances"] for found in one["sets"].values())
    # each rank sees half of the batches, together all of the audio (and a batch twice where they are odd in number)
    assert two["steps"] == -(-one["steps"] // 2 // config["max_epochs"]) * config["max_epochs"]
    assert two["audio_hours_seen"] == pytest.approx(one["audio_hours_seen"], rel=0.5)
