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


def test_online_with_a_key_or_a_login_unless_the_mode_says_otherwise(no_account: Path) -> None:
    login, key = "machine api.wandb.ai\n  login user\n  password secret\n", {"WANDB_API_KEY": "x" * 40}
    for netrc, variables, expected in (
        ("", {}, "offline"), ("", key, "online"), (login, {}, "online"), ("what is this", {}, "offline"),
        (login, {"WANDB_BASE_URL": "http://127.0.0.1:8080"}, "offline"),  # the login is at another host
        *(("", {**key, "WANDB_MODE": wanted}, wanted) for wanted in ("disabled", "offline", "online")),
    ):  # fmt: skip
        no_account.write_text(netrc)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            assert mode() == expected
