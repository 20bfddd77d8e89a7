"""Transcribe with a run's model, serve it on a web page, or export it to ONNX. In Python: `asr_serving.load(run)`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "load":
        from asr_serving.transcribe import load  # imported on demand, because it imports torch

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
