"""W&B: what a run leaves there, alone and beside other loggers; whether it goes online; a server that is not there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb

from asr_ablations.components.logger.several import several_loggers
from asr_ablations.components.logger.wandb import run_id, wandb_logger
from asr_ablations.config.build import build, check_targets
from asr_ablations.config.compose import compose as compose_words
from asr_ablations.experiment.fit import log_planned, log_result
from asr_ablations.runs import wandb_run
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import identity
from asr_ablations.runs.sweep_history import PlannedRun
from asr_ablations.runs.wandb_run import mode, refuse_mode
from asr_ablations.tools.files import CONF
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_csv, write_json
from asr_verdicts.record import SetResult, Summary
from tests.helpers.dead_server import dead_server
from tests.helpers.support import compose
from tests.helpers.wandb_file import read_run


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """No account, in a file for a login; W&B remembers a login and a run: both end with the test."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_ERROR_REPORTING"):
        monkeypatch.setenv(name, "")  # so that a value that is set meanwhile goes, too
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    yield tmp_path / "netrc"
    if wandb.run is not None:
        wandb.run.finish()
    wandb.teardown()


def record_of(outputs: Path, *choices: str) -> Run:
    words = [f"outputs={outputs}", "data=an4", "data.root=x", "sweep=s", "overrides=[]", *choices]
    run = Run(compose_words(CONF, words, name="config", folder=None))
    run.folder.mkdir(parents=True)
    write_json(run.folder / "data.json", {})
    check_targets(run.cfg)
    return run


@pytest.fixture
def record(tmp_path: Path) -> Run:
    return record_of(tmp_path)


@pytest.mark.slow
def test_each_of_several_loggers_gets_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    record = record_of(tmp_path, "logger=[wandb,tensorboard,csv]")
    logger = build(record.cfg.logger)(record)
    log_planned(logger, PlannedRun(look=2, looks=3, arm="rnn=gru", state="open"))
    logger.log_metrics({"train/loss": 2.0}, 3)
    logger.log_table("transcripts", ["id", "hypothesis"], [["a", "b c"]], step=50)
    result = SetResult(wer=0.25, cer=0.125, cer_longer=0.1, loss=0.5)
    log_result(logger, Summary(sets={"test": result}, test_sets=["test"]), [])
    logger.finalize("success")
    logger.finish(1)
    wandb.teardown()  # its service writes the file to the end
    (events,) = record.folder.rglob("events*")
    assert b"train/loss" in events.read_bytes()
    (path,) = record.folder.rglob("*.wandb")
    recorded = read_run(path)
    assert (recorded["id"], recorded["exit_code"]) == (run_id(record), 1)
    assert [row["train/loss"] for row in recorded["history"] if "train/loss" in row] == [2.0]
    assert any((row.get("final/test/wer"), row.get("final/test/loss")) == (25, 0.5) for row in recorded["history"])
    assert None not in recorded["config"].values()
    kept = {key: value for key, value in recorded["summary"].items() if key.startswith("until/")}
    assert kept == {"until/look": 2, "until/looks": 3, "until/arm": "rnn=gru", "until/state": "open"}
    (table,) = (row for row in recorded["history"] if "transcripts/path" in row)
    assert table["trainer/global_step"] == 50
    (file,) = record.folder.rglob("transcripts_*.table.json")
    assert json.loads(file.read_text())["data"] == [["a", "b c"]]


def test_none_but_csv_is_no_logger(tmp_path: Path) -> None:
    run = record_of(tmp_path, "logger=[csv]")
    assert build(run.cfg.logger)(run) is None
    assert several_loggers(run, loggers={}) is None


def test_a_resumed_offline_run_has_every_row_of_its_table_and_the_earlier_part_is_not_sent(
    record: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was killed after step 30, and its checkpoint is of step 20, to which its table is cut back."""

    def offline_part(record: Run, *rows: tuple[dict[str, float], int | None]) -> dict[str, Any]:
        """One session of a run, as W&B wrote it."""
        logger = wandb_logger(
            record, project="tests", entity=None, artifacts=["config", "best"], audio=0, name=None, tags=[], notes=None
        )
        for metrics, step in rows:
            logger.log_metrics(metrics, step)
        logger.finish(0)
        wandb.teardown()
        path = max(record.folder.rglob("*.wandb"), key=lambda file: file.stat().st_mtime_ns)
        return read_run(path)

    monkeypatch.setenv("WANDB_MODE", "offline")
    write_json(record.folder / "environment.json", {"started": "2026-01-01T00:00:00Z"})
    (record.folder / "config.yaml").write_text("seed: 0\n")
    rows = [({"train/loss": 3.0, "epoch": 0}, 10), ({"train/loss": 2.5, "epoch": 0}, 20)]
    first = offline_part(record, *rows, ({"train/loss": 2.0, "epoch": 0}, 30))
    write_csv(record.folder / "metrics.csv", [{**values, "step": step} for values, step in rows])
    (earlier,) = record.folder.rglob("*.wandb")
    second = offline_part(
        record, ({"train/loss": 2.0, "epoch": 0}, 30), ({"validation/dev/wer": 0.5, "epoch": 0}, 30),
        ({"train/loss": 1.0, "epoch": 1}, 40), ({"final/test/wer": 0.25}, None),
    )  # fmt: skip
    assert first["id"] == second["id"]
    assert [row["_step"] for row in second["history"]] == [0, 1, 2, 3, 4, 5]
    losses = [(row["trainer/global_step"], row["train/loss"]) for row in second["history"] if "train/loss" in row]
    assert losses == [(10, 3.0), (20, 2.5), (30, 2.0), (40, 1.0)]
    assert [row["validation/dev/wer"] for row in second["history"] if "validation/dev/wer" in row] == [50]
    assert earlier.with_suffix(".wandb.synced").exists()
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
        wandb_logger(record, project="tests", entity=None, artifacts=["all"], audio=0, name=None, tags=[], notes=None)


def test_runs_go_to_the_project_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    default, before = compose().logger.project, identity(compose())
    monkeypatch.setenv("WANDB_PROJECT", "other")
    for words, project in (([], "other"), (["logger.project=mine"], "mine")):
        cfg = compose(*words)
        assert (cfg.logger.project, identity(cfg)) == (project, before)
    assert default == "asr-ablations"


def test_a_mode_that_there_is_not_is_refused_if_something_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "off")
    refuse_mode([compose("logger=csv")])
    for words in (["logger=wandb"], ["logger=[csv,wandb]"]):
        with pytest.raises(UsageError, match="WANDB_MODE=off: expected online, offline, disabled"):
            refuse_mode([compose("logger=csv"), compose(*words)])


def test_online_with_a_key_or_a_login_unless_the_mode_says_otherwise(account: Path) -> None:
    login, key = "machine api.wandb.ai\n  login user\n  password secret\n", {"WANDB_API_KEY": "x" * 40}
    for netrc, variables, expected in (
        ("", {}, "offline"), ("", key, "online"), (login, {}, "online"), ("what is this", {}, "offline"),
        (login, {"WANDB_BASE_URL": "http://127.0.0.1:8080"}, "offline"),  # the login is at another host
        *(("", {**key, "WANDB_MODE": wanted}, wanted) for wanted in ("disabled", "offline", "online")),
    ):  # fmt: skip
        account.write_text(netrc)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            assert mode() == expected


OFFLINE = "this run continues offline"


@pytest.fixture
def nobody_listens(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login, and an address at which there is nobody."""
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(wandb_run, "PATIENCE_FIRST", 1)
    monkeypatch.setattr(wandb_run, "PATIENCE", 1)
    wandb.teardown()


def assert_goes_on_offline(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Two runs with ids, as real runs have them, are in their files, and the server's silence is said once."""
    for id_ in ("first", "second"):
        run = wandb_run.begin(project="tests", id=id_, dir=str(folder), resume="allow")
        run.log({"loss": 1.0})
        run.finish()
    wandb.teardown()
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if OFFLINE in line]) == len(lines) == 1
    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda file: file.name)
    assert [read_run(file)["id"] for file in files] == ["first", "second"]
    assert all(read_run(file)["history"][0]["loss"] == 1.0 for file in files)


@pytest.mark.usefixtures("nobody_listens")
def test_without_a_server_the_run_goes_on_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """W&B's client is not asked: it tries again, whatever the reason, for as long as a run may take to begin."""
    monkeypatch.setattr(wandb_run, "PATIENCE_FIRST", 30)  # to be refused takes no time, and a name's look-up a little
    assert_goes_on_offline(tmp_path, capfd)


@pytest.mark.usefixtures("nobody_listens")
@pytest.mark.slow
def test_a_silent_server_is_asked_once_and_the_run_goes_on_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Offline, W&B's service sends nothing, as long as it does not report about itself."""
    with dead_server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        assert_goes_on_offline(tmp_path, capfd)
        assert server.requests.count("GET") == 1


@pytest.mark.usefixtures("nobody_listens")
@pytest.mark.slow
def test_a_server_that_falls_silent_when_a_run_begins_costs_no_run_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """W&B's service (0.31) keeps the id of a run that it could not begin, and refuses to begin another one under it
    ("run ID … is in use"). The end of the service, by wandb.teardown, releases the id.
    """
    with dead_server("GET") as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        assert_goes_on_offline(tmp_path, capfd)
        assert "POST" in server.requests


@pytest.mark.usefixtures("nobody_listens")
def test_what_it_refuses_is_one_line(tmp_path: Path) -> None:
    for options, words in (({"project": "a/b"}, "a/b"), ({"project": "p", "entity": 5}, "entity")):
        with pytest.raises(UsageError, match=words) as refused:
            wandb_run.begin(**options, dir=str(tmp_path))
        assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("nobody_listens")
@pytest.mark.parametrize(("name", "value"), [("WANDB_API_KEY", "short"), ("WANDB_MODE", "foo")])
def test_a_wrong_login_or_mode_is_one_line(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with dead_server("GET") as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        with pytest.raises(UsageError, match=r"W&B|WANDB_MODE=foo: expected online") as refused:
            wandb_run.begin(project="tests", dir=str(tmp_path))
    assert "\n" not in str(refused.value)
