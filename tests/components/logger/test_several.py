"""Several loggers at once get what each of them takes."""

from pathlib import Path

import pytest
import wandb

from asr_ablations.components.logger.several import several_loggers
from asr_ablations.config.build import build, check_targets
from asr_ablations.config.compose import compose
from asr_ablations.experiment.fit import log_result
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import DATA
from asr_ablations.tools.files import CONF
from asr_verdicts.files import write_json
from asr_verdicts.record import SetResult, Summary
from tests.helpers.wandb_file import read_run

SUMMARY = Summary(
    sets={"test": SetResult(wer=0.25, cer=0.1, cer_longer=0.1, loss=1.0)},
    test_sets=["test"],
)


def record(folder: Path, *choices: str) -> Run:
    words = [f"outputs={folder}", "data=an4", "data.root=x", "sweep=s", "overrides=[]", *choices]
    run = Run(compose(CONF, words, name="config", folder=None))
    run.folder.mkdir(parents=True)
    write_json(run.folder / DATA, {})
    check_targets(run.cfg)
    return run


@pytest.mark.slow
def test_each_gets_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = record(tmp_path, "logger=[wandb,tensorboard,csv]")
    logger = build(run.cfg.logger)(run)
    logger.log_metrics({"train/loss": 2.0}, 3)
    log_result(logger, SUMMARY, [])
    logger.finalize("success")
    logger.finish(0)
    wandb.teardown()  # its service writes the file to the end, and the next test begins a run of its own
    (events,) = run.folder.rglob("events*")
    assert b"train/loss" in events.read_bytes()
    (file,) = run.folder.rglob("*.wandb")
    logged = read_run(file)
    assert [row["train/loss"] for row in logged["history"] if "train/loss" in row] == [2.0]
    assert logged["summary"]["final/test/wer"] == 25
    assert logged["exit_code"] == 0


def test_none_but_csv_is_no_logger(tmp_path: Path) -> None:
    run = record(tmp_path, "logger=[csv]")
    assert build(run.cfg.logger)(run) is None
    assert several_loggers(run, loggers={}) is None
