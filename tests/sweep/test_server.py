"""What a process says whose launcher was killed before it had sent it anything."""

import importlib
import multiprocessing.spawn
import os
import sys
from typing import Any

import pytest


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # which the import sets
    return importlib.import_module("asr_ablations.sweep.server").say_unless_orphaned


def test_an_orphan_says_nothing(hook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    os.close(write)
    with pytest.raises(EOFError) as raised:
        multiprocessing.spawn._main(read, read)  # type: ignore[attr-defined]
    hook(raised.type, raised.value, raised.tb)
    assert capsys.readouterr().err == ""


def test_any_other_error_is_said(hook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for error in (EOFError("of a file"), ValueError("a value")):
        with pytest.raises(type(error)) as raised:
            raise error
        hook(raised.type, raised.value, raised.tb)
        assert f"{type(error).__name__}: {error}" in capsys.readouterr().err
