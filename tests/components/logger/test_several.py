"""Several loggers at once get what each of them takes."""

from pathlib import Path

import pytest
import wandb

from asr_ablations.components.logger.several import several_loggers
from asr_ablations.config.build import build, check_targets
from asr_ablations.config.compose import compose, several
from asr_ablations.experiment.summary import finish, log_result
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import short_name
from asr_ablations.runs.record import SetResult, Summary
from asr_ablations.tools.files import CONF
from tests.helpers.wandb_file import read_run

SUMMARY = Summary(
    sets={"test": SetResult(wer=0.25, cer=0.1, cer_longer=0.1, loss=1.0)},
    test_sets=["test"],
)


def record(folder: Path, choice: str) -> Run:
    words = [f"outputs={folder}", "data=an4", "data.root=x", "sweep=s", "overrides=[]", choice]
    run = Run(compose(CONF, words, name="config", folder=None))
    run.folder.mkdir(parents=True)
    check_targets(run.cfg)
    return run


def test_each_gets_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = record(tmp_path, "logger=[wandb,tensorboard,csv]")
    logger = build(run.cfg.logger)(run)
    logger.log_metrics({"train/loss": 2.0}, 3)
    log_result(logger, SUMMARY, [])
    logger.finalize("success")
    finish(logger, 0)
    wandb.teardown()  # its service writes the file to the end, and the next test begins a run of its own
    (events,) = run.folder.rglob("events*")
    assert b"train/loss" in events.read_bytes()
    (file,) = run.folder.rglob("*.wandb")
    logged = read_run(file)
    assert [row["train/loss"] for row in logged["history"] if "train/loss" in row] == [2.0]
    assert logged["summary"]["final/test/wer"] == 0.25
    assert logged["exit_code"] == 0


def test_none_but_csv_is_no_logger(tmp_path: Path) -> None:
    run = record(tmp_path, "logger=[csv]")
    assert build(run.cfg.logger)(run) is None
    assert several_loggers(run, loggers={}) is None


def test_they_are_no_part_of_a_runs_name() -> None:
    assert short_name(several(["logger=[wandb,csv]", "rnn=gru"])) == "rnn-gru"
