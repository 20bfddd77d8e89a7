"""Several ranks under torchrun, here on the CPU: one record, every utterance once, the same weights everywhere."""

import csv
import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from asr_ablations.runs.process import child_environment, command
from tests.helpers.command import REPOSITORY, SHRUNKEN, clean_environment, run, run_folders
from tests.helpers.interpreter import program
from tests.helpers.support import tiny_overrides


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


def test_a_wrong_value_is_said_before_any_rank_starts(tiny_corpus: Path, tmp_path: Path) -> None:
    words = ["trainer=local_sgd", "trainer.every=0.7", "ranks=2", "gpus=0", "logger=csv"]
    done = run(["src/train.py", *tiny_overrides(tiny_corpus), *words], tmp_path, tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: trainer.every=0.7: expected a whole number")


def test_what_the_ranks_find_is_said_once(tiny_corpus: Path, tmp_path: Path) -> None:
    """Here both find that the alphabet lacks letters of the corpus, which the process that starts them has not read."""
    words = ["alphabet=en", "alphabet.characters=xyz", "ranks=2", "gpus=0", "logger=csv", "width=8", "layers=1"]
    done = run(["src/train.py", *tiny_overrides(tiny_corpus), *words], tmp_path, tmp_path)
    assert (done.returncode, done.stderr.count("error:")) == (2, 1), done.stderr
    assert "characters outside the alphabet" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_rank_that_is_killed_ends_the_others_with_a_line(tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(
        "import os, signal, time\n"
        "if os.environ['RANK'] == '1':\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "time.sleep(3600)\n"
    )
    module = [sys.executable, "-m", "asr_ablations.runs.torchrun", "--standalone", "--nproc-per-node=2"]
    done = program([*module, f"--log-dir={os.devnull}", str(script)], {**child_environment(), "OMP_NUM_THREADS": "1"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: rank 1 was killed by SIGKILL\n"
