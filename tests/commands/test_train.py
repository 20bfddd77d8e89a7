"""python src/train.py: one run, its record, and what happens to mistakes."""

import csv
import json
import math
import re
import signal
from pathlib import Path

import jiwer
import pytest
import torch
import yaml

from tests.helpers.command import SHRUNKEN, clean_environment, run, run_folders
from tests.helpers.interpreter import expect, start
from tests.helpers.processes import wait_for
from tests.helpers.support import REPOSITORY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def default_run(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp("default")
    done = expect(0, run(["src/train.py", *SHRUNKEN], corpora, folder))
    (only,) = run_folders(folder)
    return done, only


def test_it_says_what_it_does_epoch_by_epoch_and_at_the_end_and_nothing_else(default_run):
    def forms(text):
        """The forms of a run's last lines: numbers are 0, names of sets and words of transcripts are left out."""
        lines = re.findall(r"^(?:epoch \d.*|[┃│] .*|(?:reference|hypothesis)\b.*)", text, flags=re.MULTILINE)
        numbered = (" ".join(re.sub(r"\d[\d.]*", "0", line).split()) for line in lines)
        unnamed = (re.sub(r"^(│|reference|hypothesis) ?[\w' -]*", r"\1 …", line) for line in numbered)
        return {re.sub(r"[\w-]+: loss", "…: loss", line) for line in unnamed}

    done, folder = default_run
    epochs = [line for line in done.stdout.splitlines() if line.startswith("epoch ")]
    assert len(epochs) == 2
    assert all(word in epochs[-1] for word in ("  train ", "dev-clean: loss", "WER", "CER"))
    for expected in ("test-clean", "test-other", "trained", str(folder), "look at it"):
        assert expected in done.stdout
    assert "try next" not in done.stdout, "it is no terminal"
    assert done.stdout.count("\nreference ") == done.stdout.count("\nhypothesis ") == 3
    assert "Warning" not in done.stderr
    assert "Traceback" not in done.stderr
    quoted = {form for page in ("README.md", "docs/tutorial.md") for form in forms((REPOSITORY / page).read_text())}
    assert {form.split()[0] for form in quoted} == {"epoch", "┃", "│", "reference", "hypothesis"}
    assert quoted <= forms(done.stdout)


def test_record_is_complete(default_run):
    _, folder = default_run
    assert {path.name for path in folder.iterdir()} >= {
        "checkpoints", "config.yaml", "data.json", "environment.json", "metrics.csv", "overrides", "status.json",
        "summary.json", "utilisation.csv", "utterances.csv",
    }  # fmt: skip
    assert {path.name for path in (folder / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    assert json.loads((folder / "status.json").read_text())["status"] == "done"
    assert not list(folder.rglob(".*.[0-9]*")), "temporary files stayed behind"
    text = (folder / "config.yaml").read_text()
    assert "${" not in text
    config = yaml.safe_load(text)
    assert config["model"]["width"] == config["width"] == 16
    assert (folder / "overrides").read_text().splitlines()[:-1] == SHRUNKEN
    checkpoint = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert checkpoint["alphabet"] == {"characters": "abcdefghijklmnopqrstuvwxyz '", "separation": ""}
    assert checkpoint["position"] == {"epoch": 2, "batches": 0}


def test_summary_agrees_with_utterances_and_with_jiwer(default_run):
    _, folder = default_run
    summary = json.loads((folder / "summary.json").read_text())
    with (folder / "utterances.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["set"] for row in rows} == {"dev-clean", "test-clean", "test-other"}
    for name, found in summary["sets"].items():
        mine = [row for row in rows if row["set"] == name]
        assert len({row["id"] for row in mine}) == found["utterances"] == len(mine)
        expected = jiwer.wer([row["reference"] for row in mine], [row["hypothesis"] for row in mine])
        assert found["wer"] == pytest.approx(expected)
    assert summary["left_out"] == []
    assert 0.018 < summary["train_hours"] < 0.03
    assert set(summary["phase_seconds"]) == {"setup", "train", "validate", "decode", "checkpoint", "evaluate"}
    assert all(Path(row["audio"]).is_file() and float(row["duration"]) > 0.2 for row in rows)


def test_metrics_hold_every_figure_of_every_epoch(default_run):
    _, folder = default_run
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for key in (
        "train/loss_epoch", "validation/dev-clean/loss", "validation/dev-clean/wer", "validation/dev-clean/cer",
        "train/learning_rate", "train/gradient_norm", "train/audio_hours_per_second", "train/padding_percent",
        "train/waiting_percent", "train/epoch_seconds", "time/seconds", "time/audio_hours",
    ):  # fmt: skip
        values = [float(row[key]) for row in rows if row[key]]
        assert len(values) == 2, key
        assert all(value > 0 for value in values), key


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["data.words=7000000"], ["words", "7000000"]),
        (["-m", "rnn=lstm,gru", "precision=8"], ["precision=8", "32, 16, bf16"]),
        (["-cd", "sweeps", "-cn", "rnn_type", "seed=0"], ["-cn rnn_type varies rnn; expected -m: python "]),
        # a file that varies keys is one run if all are set
        (["precision=8", "-cd", "sweeps", "-cn", "rnn_type", "rnn=gru", "seed=0"], ["precision=8", "32, 16, bf16"]),
    ],
    ids=lambda value: " ".join(value),
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(overrides, told, corpora, tmp_path):
    done = expect(2, run(["src/train.py", *overrides, "logger=csv"], corpora, tmp_path))
    (line,) = done.stderr.strip().splitlines()
    assert all(part in line for part in told), line
    late = overrides == ["data.words=7000000"]  # found by a class that torch is imported for
    assert ("starts " in done.stdout) == late
    assert run_folders(tmp_path) == []


def test_a_run_that_diverges_is_a_result_and_is_not_trained_again(corpora, tmp_path):
    # a rate this high gives weights, and so a loss, that are no numbers from the second step on
    options = ["logger=csv", "optimizer.lr=1e30", "optimizer.weight_decay=1"]
    done = expect(1, run(["src/train.py", *SHRUNKEN, *options], corpora, tmp_path))
    (folder,) = run_folders(tmp_path)
    status = json.loads((folder / "status.json").read_text())
    losses = [float(row["loss"]) for row in csv.DictReader((folder / "losses.csv").read_text().splitlines())]
    step = next(number for number, loss in enumerate(losses, start=1) if not math.isfinite(loss))
    assert (status["status"], status["diverged"]) == ("failed", step)
    assert status["reason"] == f"diverged at step {step}: the loss is {losses[step - 1]}"
    assert done.stderr.splitlines()[-1] == status["reason"]
    assert "Traceback" not in done.stderr
    assert json.loads((folder / "summary.json").read_text())["sets"] == {}
    assert not (folder / "checkpoints" / "last.ckpt").exists(), "weights that are no numbers are not kept"
    again = expect(1, run(["src/train.py", *SHRUNKEN, *options], corpora, tmp_path))
    assert again.stderr.splitlines() == [f"{status['reason']}, as before; force=true runs it again: {folder}"]
    assert json.loads((folder / "status.json").read_text()) == status


def test_ctrl_c_is_recorded(corpora, tmp_path):
    long = ["max_epochs=1000", "checkpoint_minutes=0.001"]
    words = ["src/train.py", *SHRUNKEN, "logger=csv", *long, f"outputs={tmp_path}"]
    with start(words, clean_environment(corpora, tmp_path)) as command:
        wait_for(lambda: list(tmp_path.rglob("last.ckpt")) or command.poll() is not None)
        command.send_signal(signal.SIGINT)
        done = command.finish()
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "interrupted; the same command continues")
    assert "Traceback" not in done.stderr
    (folder,) = run_folders(tmp_path)
    status = json.loads((folder / "status.json").read_text())
    assert (status["status"], status["reason"]) == ("failed", "interrupted")


def test_ranks_that_train_together_diverge_together(corpora, tmp_path):
    """Under local_sgd losses are a rank's own: a rank that ended alone would leave the others waiting for ever."""
    options = ["logger=csv", "optimizer.lr=1e30", "optimizer.weight_decay=1", "ranks=2", "gpus=0", "trainer=local_sgd"]
    done = expect(1, run(["src/train.py", *SHRUNKEN, *options], corpora, tmp_path))
    (folder,) = run_folders(tmp_path)
    status = json.loads((folder / "status.json").read_text())
    assert status["reason"] == f"diverged at step {status['diverged']}: the loss is nan"
    assert done.stderr.splitlines()[-1] == status["reason"]
    assert "Traceback" not in done.stderr
