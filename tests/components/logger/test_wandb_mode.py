"""Whether W&B goes online is decided without asking anybody."""

from pathlib import Path

import pytest

from asr_ablations.runs.identity import identity
from asr_ablations.runs.wandb_run import mode, refuse_mode
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return tmp_path / "netrc"


LOGIN = "machine api.wandb.ai\n  login user\n  password secret\n"
KEY = {"WANDB_API_KEY": "x" * 40}


@pytest.mark.parametrize(
    ("variables", "words", "project"),
    [
        ({}, [], "asr-ablations"),
        ({"WANDB_PROJECT": "other"}, [], "other"),
        ({"WANDB_PROJECT": "other"}, ["logger.project=mine"], "mine"),
    ],
)
def test_runs_go_to_the_project_of_the_environment(
    variables: dict[str, str], words: list[str], project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    before = identity(compose())
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    cfg = compose(*words)
    assert (cfg.logger.project, identity(cfg)) == (project, before)


def test_a_mode_that_there_is_not_is_refused_if_something_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "off")
    refuse_mode([compose("logger=csv")])
    for words in (["logger=wandb"], ["logger=[csv,wandb]"]):
        with pytest.raises(UsageError, match="WANDB_MODE=off: expected online, offline, disabled"):
            refuse_mode([compose("logger=csv"), compose(*words)])


@pytest.mark.parametrize(
    ("netrc", "variables", "expected"),
    [
        ("", {}, "offline"), ("", KEY, "online"), (LOGIN, {}, "online"), ("what is this", {}, "offline"),
        (LOGIN, {"WANDB_BASE_URL": "http://127.0.0.1:8080"}, "offline"),  # the login is at another host
        *(("", {**KEY, "WANDB_MODE": wanted}, wanted) for wanted in ("disabled", "offline", "online")),
    ],
)  # fmt: skip
def test_online_with_a_key_or_a_login_unless_the_mode_says_otherwise(
    netrc: str, variables: dict[str, str], expected: str, no_account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if netrc:
        no_account.write_text(netrc)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert mode() == expected
