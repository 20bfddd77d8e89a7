"""The options of the launcher, checked before anything is written."""

from pathlib import Path
from typing import Any

import pytest

from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.launch import run
from asr_ablations.tools.errors import UsageError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, r"hydra\.launcher\.timeout=0: expected minutes above 0, or null for no limit"),
        ({"timeout": True}, r"hydra\.launcher\.timeout=True: expected minutes above 0"),
        ({"timeout": "long"}, r"hydra\.launcher\.timeout=long: expected minutes above 0"),
        ({"fail_fast": "maybe"}, r"hydra\.launcher\.fail_fast=maybe: expected true or false"),
        ({"jobs": 0}, r"hydra\.launcher\.jobs=0: expected a whole number, 1 or more"),
        ({}, "arm a: gpus=3, this machine has 2"),
    ],
)
def test_wrong_values_are_named(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    arm = FrozenArm("a", "1", tmp_path / "a.yaml", tmp_path / "sweep" / "a", 3, 3, ())
    valid: dict[str, Any] = {"jobs": None, "per_gpu": 1, "timeout": None, "show": None, "fail_fast": False}
    with pytest.raises(UsageError, match=message):
        run(Path("train.py"), [arm], {}, **{**valid, **options})
    assert list(tmp_path.iterdir()) == []
