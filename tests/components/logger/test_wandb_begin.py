"""A server of W&B's that cannot be reached costs no training, and a value that it refuses one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb

from asr_ablations.runs import wandb_run
from asr_verdicts.errors import UsageError
from tests.helpers.dead_server import dead_server
from tests.helpers.wandb_file import read_run

REFUSING = "http://127.0.0.1:1"
OFFLINE = "this run continues offline"


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A login, and an address at which there is nobody. W&B remembers a login and a run: both end with the test."""
    for name in ("WANDB_MODE", "WANDB_ERROR_REPORTING"):
        monkeypatch.setenv(name, "")  # so that a value that is set meanwhile goes, too
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", REFUSING)
    monkeypatch.setattr(wandb_run, "PATIENCE_FIRST", 1)
    monkeypatch.setattr(wandb_run, "PATIENCE", 1)
    wandb.teardown()
    yield
    if wandb.run is not None:
        wandb.run.finish()
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


def test_without_a_server_the_run_goes_on_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """W&B's client is not asked: it tries again, whatever the reason, for as long as a run may take to begin."""
    monkeypatch.setattr(wandb_run, "PATIENCE_FIRST", 30)  # to be refused takes no time, and a name's look-up a little
    assert_goes_on_offline(tmp_path, capfd)


@pytest.mark.slow
def test_a_silent_server_is_asked_once_and_the_run_goes_on_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Offline, W&B's service sends nothing, as long as it does not report about itself."""
    with dead_server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        assert_goes_on_offline(tmp_path, capfd)
        assert server.requests.count("GET") == 1


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


def test_what_it_refuses_is_one_line(tmp_path: Path) -> None:
    for options, words in (({"project": "a/b"}, "a/b"), ({"project": "p", "entity": 5}, "entity")):
        with pytest.raises(UsageError, match=words) as refused:
            wandb_run.begin(**options, dir=str(tmp_path))
        assert "\n" not in str(refused.value)


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
