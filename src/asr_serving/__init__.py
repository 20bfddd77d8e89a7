"""Uses of a trained run: transcripts, subtitles, a page with a microphone, ONNX. In Python: `asr_serving.load(run)`."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "load":
        from asr_serving.transcribe import load  # imports torch

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
