"""Use a trained run for transcripts, subtitles, a web page or ONNX. From Python: `asr_serving.load(run)`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "load":
        from asr_serving.transcribe import load  # imports torch

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
