"""What a run gives to its logger at its end."""

import json
from pathlib import Path
from typing import Any

import pytest
import wandb
from omegaconf import OmegaConf

from asr_ablations.components.logger.tensorboard import tensorboard_logger
from asr_ablations.components.logger.wandb import run_id, wandb_logger
from asr_ablations.config.compose import compose as compose_file
from asr_ablations.experiment.summary import finish, log_planned, log_result
from asr_ablations.report.wandb import final_rates, log_afterwards
from asr_ablations.runs.folder import Run
from asr_ablations.runs.sweep_history import PlannedRun
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import CONF, write_json
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
    logger = wandb_logger(record, project="tests", entity=None, artifacts=[])
    assert isinstance(logger, LoggerOfTables)
    log_planned(logger, PLANNED)
    logger.log_table("transcripts", ["id", "hypothesis"], [["a", "b c"]], step=50)
    log_result(logger, SUMMARY, [])
    finish(logger, exit_code)
    wandb.teardown()  # its service writes the file to the end
    (path,) = record.folder.rglob("*.wandb")
    recorded = read_run(path)
    assert (recorded["id"], recorded["exit_code"]) == (run_id(record), exit_code)
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


def offline_part(record: Run, *rows: tuple[dict[str, float], int | None]) -> dict[str, Any]:
    """One session of a run, as W&B wrote it."""
    logger = wandb_logger(record, project="tests", entity=None, artifacts=["config", "best"])
    for metrics, step in rows:
        logger.log_metrics(metrics, step)
    finish(logger, 0)
    wandb.teardown()
    path = max(record.folder.rglob("*.wandb"), key=lambda file: file.stat().st_mtime_ns)
    return read_run(path)


def test_a_resumed_run_goes_on_behind_what_it_had_logged(
    record: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was killed after step 30, and its checkpoint is of step 20: what is repeated is not logged again."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    write_json(record.folder / "environment.json", {"started": "2026-01-01T00:00:00Z"})
    (record.folder / "config.yaml").write_text("seed: 0\n")
    before = [({"train/loss": 3.0, "epoch": 0}, 10), ({"train/loss": 2.0, "epoch": 0}, 30)]
    first = offline_part(record, *before)
    second = offline_part(
        record,
        ({"train/loss": 2.5, "epoch": 0}, 20),
        ({"train/loss": 2.0, "epoch": 0}, 30),
        ({"validation/dev/wer": 0.5, "epoch": 0}, 30),
        ({"train/loss": 1.0, "epoch": 1}, 40),
        ({"final/test/wer": 0.25}, None),
    )
    assert first["id"] == second["id"]
    steps = [[row["_step"] for row in part["history"]] for part in (first, second)]
    assert steps == [[0, 1], [2, 3, 4]]
    losses = [row["trainer/global_step"] for part in (first, second) for row in part["history"] if "train/loss" in row]
    assert losses == [10, 30, 40]
    assert f"wandb sync {record.folder}/wandb/offline-run-*" in capsys.readouterr().out
    assert {"config": [f"{first['id']}-config"]} == second["artifacts"], "there is no best checkpoint"


def test_a_run_of_the_same_content_that_starts_anew_has_another_id(record: Run) -> None:
    write_json(record.folder / "environment.json", {"started": "2026-01-01T00:00:00Z"})
    first = run_id(record)
    write_json(record.folder / "environment.json", {"started": "2026-01-01T00:00:01Z"})
    again = run_id(record)
    record.cfg.sweep = "another"
    assert len({first, again, run_id(record)}) == 3


def test_an_artifact_that_there_is_not_is_one_line(record: Run) -> None:
    with pytest.raises(UsageError, match=r"logger\.artifacts=all: expected config, utterances, best"):
        wandb_logger(record, project="tests", entity=None, artifacts=["all"])


@pytest.mark.parametrize("logger", ["wandb", "[csv,wandb]", "csv"])
def test_an_evaluation_stands_beside_its_run(logger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    words = [f"outputs={tmp_path}", "data=an4", "data.root=x", "sweep=s", "overrides=[]", f"logger={logger}"]
    cfg = compose_file(CONF, words, name="config", folder=None)
    run = Run(cfg)
    write_run_files(run)
    rates = final_rates({"test": {"wer": 0.5, "cer": 0.25, "words": 4}})
    command = log_afterwards(run.folder, "evaluation", "beam", rates, {"evaluation": "beam-1"})
    wandb.teardown()
    files = [*run.folder.rglob("*.wandb")]
    if logger == "csv":
        assert (files, command) == ([], None)
        return
    logged = read_run(files[0])
    assert (logged["group"], logged["job_type"], logged["config"]["evaluation"]) == ("s", "evaluation", "beam-1")
    assert logged["config"]["identity"] == run.id
    assert {key: logged["summary"][key] for key in rates} == {"final/test/wer": 0.5, "final/test/cer": 0.25}
    assert command == f"wandb sync {run.folder}/wandb/offline-run-*"


def write_run_files(run: Run) -> None:
    run.folder.mkdir(parents=True)
    (run.folder / "config.yaml").write_text(OmegaConf.to_yaml(run.cfg, resolve=True))
    write_json(run.folder / "environment.json", {"id": run.id})
