"""What a run gives to its logger at its end."""

import json
from pathlib import Path

import pytest
import wandb

from asr_ablations.components.logger.tensorboard import tensorboard_logger
from asr_ablations.components.logger.wandb import wandb_logger
from asr_ablations.experiment.summary import finish, log_planned, log_result
from asr_ablations.runs.folder import Run
from asr_ablations.runs.planned_run import PlannedRun
from asr_ablations.training.contracts import LoggerOfTables, LoggerWithExitCode
from tests.helpers.support import compose
from tests.helpers.wandb_file import read_run

PLANNED = PlannedRun(look=2, looks=3, arm="rnn=gru", state="open")
SUMMARY = {"sets": {"test": {"wer": 0.25, "cer": 0.125, "cer_longer": 0.1, "loss": 0.5}}, "test_sets": ["test"]}


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
    log_planned(logger, PLANNED)
    logger.log_table("transcripts", ["id", "hypothesis"], [["a", "b c"]], step=50)
    log_result(logger, SUMMARY, [])
    finish(logger, exit_code)
    wandb.teardown()  # its service writes the file to the end
    (path,) = record.folder.rglob("*.wandb")
    recorded = read_run(path)
    assert (recorded["id"], recorded["exit_code"]) == (record.id, exit_code)
    assert any((row.get("final/test/wer"), row.get("final/test/loss")) == (0.25, 0.5) for row in recorded["history"])
    kept = {key: value for key, value in recorded["summary"].items() if key.startswith("until/")}
    assert kept == {"until/look": 2, "until/looks": 3, "until/arm": "rnn=gru", "until/state": "open"}
    (table,) = (row for row in recorded["history"] if "transcripts/path" in row)
    assert table["trainer/global_step"] == 50
    (file,) = record.folder.rglob("transcripts_*.table.json")
    assert json.loads(file.read_text())["data"] == [["a", "b c"]]


def test_a_logger_without_an_end_is_left_alone(record: Run) -> None:
    logger = tensorboard_logger(record)
    assert not isinstance(logger, (LoggerOfTables, LoggerWithExitCode))
    finish(logger, 1)
    finish(None, 1)


def test_tensorboard_has_the_part_in_a_plan_among_its_texts(record: Run) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logger = tensorboard_logger(record)
    log_planned(logger, PLANNED)
    logger.finalize("success")
    log_planned(None, PLANNED)
    events = EventAccumulator(logger.log_dir).Reload()
    texts = {
        tag.removesuffix("/text_summary"): events.Tensors(tag)[0].tensor_proto.string_val[0].decode()
        for tag in events.Tags()["tensors"]
    }
    assert texts == {"until/look": "2", "until/looks": "3", "until/arm": "rnn=gru", "until/state": "open"}
