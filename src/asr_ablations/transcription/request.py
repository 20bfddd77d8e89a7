"""What a transcription is asked: checks before anything is loaded."""

import math
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import check_targets
from asr_ablations.tools.errors import UsageError, choices

FORMATS = ("text", "json", "srt")
SERVING = ("fastapi", "uvicorn")


def check_request(cfg: DictConfig) -> None:
    """Raises UsageError with the value and the choices."""
    check_targets(cfg)
    if not cfg.run:
        raise UsageError("run is not set: a run's folder, as in python src/transcribe.py run=outputs/<sweep>/<run>")
    if not isinstance(cfg.serve, bool):
        raise choices("serve", cfg.serve, (True, False))
    if cfg.format not in FORMATS:
        raise choices("format", cfg.format, FORMATS)
    if cfg.gpus not in ("auto", 0, 1):
        raise choices("gpus", cfg.gpus, ("auto", 0, 1))
    for key in ("longest", "batch_seconds", "limits.megabytes", "limits.minutes"):
        _check_positive(key, OmegaConf.select(cfg, key))
    if cfg.longest < 1:
        raise choices("longest", cfg.longest, "1 second or more")
    _check_port(cfg.port)
    if cfg.serve:
        if missing := [name for name in SERVING if find_spec(name) is None]:
            raise UsageError(f"{', '.join(missing)}: not installed; pip install -e '.[serve]' installs it")
    elif not asked(cfg):
        raise UsageError("audio is not set: a file, a folder, several as [a.wav,b], or - for a list on standard input")


def asked(cfg: DictConfig) -> list[str]:
    """The key audio as a list."""
    given: Any = OmegaConf.to_container(cfg.audio) if OmegaConf.is_config(cfg.audio) else cfg.audio
    return [str(one) for one in (given if isinstance(given, list) else [given]) if one not in (None, "")]


def _check_positive(key: str, value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value <= 0:
        raise choices(key, value, "a number above 0")


def _check_port(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 65536:
        raise choices("port", value, "a whole number from 0 to 65535")
