"""Whether W&B goes online is decided without asking anybody."""

from pathlib import Path

import pytest

from asr_ablations.components.logger.wandb_run import mode


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    return tmp_path / "netrc"


def test_offline_without_a_login():
    assert mode() == "offline"


def test_online_with_a_key(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert mode() == "online"


def test_online_with_a_login_in_netrc(no_account):
    no_account.write_text("machine api.wandb.ai\n  login user\n  password secret\n")
    assert mode() == "online"


def test_a_login_at_another_host_does_not_count(no_account, monkeypatch):
    no_account.write_text("machine api.wandb.ai\n  login user\n  password secret\n")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:8080")
    assert mode() == "offline"


@pytest.mark.parametrize("wanted", ["disabled", "offline", "online"])
def test_wandb_mode_has_the_last_word(monkeypatch, wanted):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setenv("WANDB_MODE", wanted)
    assert mode() == wanted


def test_a_damaged_netrc_is_no_login(no_account):
    no_account.write_text("what is this")
    assert mode() == "offline"
