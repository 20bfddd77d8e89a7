"""Keys and groups that are newer than a recorded config."""

import yaml
from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.identity import LATER
from asr_ablations.tools.paths import DEFAULTS

NOT_FILLED = ("defaults", "hydra", "overrides")


def fill(cfg: DictConfig) -> None:
    """Give a training's config of an earlier version the plain keys that it lacks, and the later groups, as they are
    by default.
    """
    content = yaml.safe_load(DEFAULTS.read_text(encoding="utf-8"))
    for key, value in content.items():
        if key in NOT_FILLED or value == "???":
            continue
        if key not in cfg:
            cfg[key] = value
        elif isinstance(value, dict) and isinstance(cfg[key], DictConfig):
            cfg[key] = {**value, **OmegaConf.to_container(cfg[key])}  # type: ignore[dict-item]
    for key, value in LATER.items():
        if "." not in key and key not in cfg:
            cfg[key] = value
