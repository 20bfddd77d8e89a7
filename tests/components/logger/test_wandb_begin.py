"""A server of W&B's that cannot be reached costs no training, and a value that it refuses one line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb

from asr_ablations.components.logger import wandb_run
from asr_ablations.tools.errors import UsageError


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A login, and an address at which there is nobody. W&B remembers a login and a run: both end with the test."""
    for name in ("WANDB_MODE", "WANDB_SWEEP_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setattr(wandb_run, "PATIENCE", 1)
    wandb.teardown()
    yield
    if wandb.run is not None:
        wandb.run.finish()
    wandb.teardown()


def test_without_a_server_the_run_goes_on_offline(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = wandb_run.begin(project="tests", dir=str(tmp_path))
    run.log({"loss": 1.0})
    run.finish()
    wandb.teardown()
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if "goes on offline" in line]) == 1
    assert f"later: wandb sync {tmp_path}/wandb/offline-run-*" in lines
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def test_an_agents_run_needs_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SWEEP_ID", "abc")
    with pytest.raises(UsageError, match="its agent needs it"):
        wandb_run.begin(project="tests", dir=str(tmp_path))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"project": "a/b"}, "a/b"), ({"project": "x" * 300}, "xxx"), ({"project": "p", "entity": 5}, "entity")],
)
def test_what_it_refuses_is_one_line(options: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        wandb_run.begin(**options, dir=str(tmp_path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("name", "value"), [("WANDB_API_KEY", "short"), ("WANDB_MODE", "foo")])
def test_a_wrong_login_or_mode_is_one_line(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="W&B") as refused:
        wandb_run.begin(project="tests", dir=str(tmp_path))
    assert "\n" not in str(refused.value)
