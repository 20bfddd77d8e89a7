"""What an evaluation is asked: checks before anything is loaded."""

import json
import math
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import check_targets
from asr_ablations.runs.layout import CONFIG
from asr_ablations.runs.records import KEPT_ASIDE
from asr_ablations.tools.errors import UsageError, choices

WHOLE = {"tune.trials": 0, "tune.seed": 0}
SPACES = ("alpha", "beta", "prune_beams")


def check_requests(cfgs: DictConfig | list[DictConfig]) -> None:
    """Raises UsageError with the value and the choices."""
    for cfg in cfgs if isinstance(cfgs, list) else [cfgs]:
        check_targets(cfg)
        if not cfg.run:
            raise UsageError("run is not set: a run's folder, as in python src/evaluate.py run=outputs/<sweep>/<run>")
        for key, smallest in WHOLE.items():
            value = OmegaConf.select(cfg, key)
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise choices(key, value, f"a whole number, {smallest} or more")
        for key in SPACES:
            _check_space(key, cfg.tune[key], optional=key == "prune_beams")
        if cfg.untrained not in ("skip", "decode"):
            raise choices("untrained", cfg.untrained, ("skip", "decode"))
        if cfg.gpus not in ("auto", 0, 1):
            raise choices("gpus", cfg.gpus, ("auto", 0, 1))


def _check_space(key: str, value: Any, optional: bool) -> None:
    if optional and value is None:
        return
    ends: Any = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
    numbers = isinstance(ends, list) and len(ends) == 2 and all(_number(end) for end in ends)
    if not numbers or not ends[0] < ends[1] or (key == "prune_beams" and ends[0] <= 0):
        raise choices(f"tune.{key}", ends, "the ends of a range, as [0.0, 2.5]")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def runs_of(path: Path) -> list[Path]:
    """The finished runs of a sweep's folder; any other path is a run's own."""
    if not path.is_dir() or (path / CONFIG).exists():
        return [path]
    found = []
    for status in sorted(path.glob("*/status.json")):
        done = json.loads(status.read_text(encoding="utf-8")).get("status") == "done"
        if done and not KEPT_ASIDE.search(status.parent.name):
            found.append(status.parent)
    return found or [path]
