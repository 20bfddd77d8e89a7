"""What a run gives to its logger at its end."""

from pathlib import Path

import pytest
import wandb

from asr_ablations.components.logger.tensorboard import tensorboard_logger
from asr_ablations.components.logger.wandb import wandb_logger
from asr_ablations.experiment.summary import finish, log_result
from asr_ablations.runs.folder import Run
from asr_ablations.training.contracts import LoggerOfTables, LoggerWithExitCode
from tests.helpers.support import compose
from tests.helpers.wandb_file import read_run

SUMMARY = {"sets": {"test": {"wer": 0.25, "cer": 0.125, "loss": 0.5}}, "test_sets": ["test"]}


@pytest.fixture
def record(tmp_path: Path) -> Run:
    record = Run(compose(f"outputs={tmp_path}", "data=an4", "data.root=/somewhere"))
    record.folder.mkdir(parents=True)
    return record


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_wandb_run_ends_with_the_rates_and_the_exit_code(
    exit_code: int, record: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    logger = wandb_logger(record, project="tests", entity=None)
    assert isinstance(logger, LoggerOfTables)
    log_result(logger, SUMMARY, [])
    finish(logger, exit_code)
    wandb.teardown()  # its service writes the file to the end
    (path,) = record.folder.rglob("*.wandb")
    recorded = read_run(path)
    assert (recorded["id"], recorded["exit_code"]) == (record.id, exit_code)
    assert any((row.get("final/test/wer"), row.get("final/test/loss")) == (0.25, 0.5) for row in recorded["history"])


def test_a_logger_without_an_end_is_left_alone(record: Run) -> None:
    logger = tensorboard_logger(record)
    assert not isinstance(logger, (LoggerOfTables, LoggerWithExitCode))
    finish(logger, 1)
    finish(None, 1)
