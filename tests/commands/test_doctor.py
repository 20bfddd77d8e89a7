"""What doctor finds on this machine, and on machines that lack something."""

from importlib.metadata import PackageNotFoundError

import pytest

from asr_ablations.commands import doctor
from asr_ablations.native.extension import NativeError


def test_a_machine_that_can_train_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line[:4] in ("ok  ", "--  ") for line in lines)
    assert any(line.startswith("ok  torch 2.") for line in lines)
    assert any("GB free for outputs" in line for line in lines)
    assert all(": " in line for line in lines if line.startswith("--")), "each lack with its fix"


def test_what_is_missing_comes_with_its_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    def unsupported() -> object:
        raise NativeError("no C++ compiler")

    monkeypatch.setattr(doctor, "version", absent)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor, "find_program", lambda name: None)
    monkeypatch.setattr(doctor.extension, "load_best", unsupported)
    monkeypatch.setattr(doctor, "gpu_names", lambda: ["NVIDIA H200"])
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert doctor.main([]) == 1
    printed = capsys.readouterr().out
    for line in (
        "!!  torch is missing: make install",
        "--  no native library for training on the CPU (no C++ compiler): install g++",
        "--  OMP_WAIT_POLICY is not PASSIVE: unset it",
        "ok  1 GPU: NVIDIA H200",
        "--  torch is built without CUDA: make install TORCH_INDEX=",
        "--  espeak-ng is missing: pip install espeakng-loader",
        "--  KenLM's lmplz: make lmplz",
        "--  extra units: sentencepiece missing; make install EXTRAS=units",
    ):
        assert line in printed
