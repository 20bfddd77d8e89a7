"""Values of the plain keys of a training config."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import check_targets
from asr_ablations.tools.errors import choices

PRECISIONS = (32, 16, "bf16", "16-true", "bf16-true")


def check(cfg: DictConfig) -> None:
    """Values of plain keys. Raises UsageError with the value and the choices."""
    _check_language(cfg)
    check_targets(cfg)
    if cfg.precision not in PRECISIONS:
        raise choices("precision", cfg.precision, PRECISIONS)
    if cfg.gpus != "auto":
        _whole(cfg, "gpus", 0)
    whole = {"seed": 0, "max_epochs": 1, "width": 1, "layers": 1, "workers": 0, "nodes": 1}
    for key, smallest in whole.items():
        _whole(cfg, key, smallest)
    for key in cfg.seeds:
        if cfg.seeds[key] is not None:
            _whole(cfg, f"seeds.{key}", 0)
    _batch(cfg)
    if not (_number(cfg.dropout) and 0 <= cfg.dropout < 1):
        raise choices("dropout", cfg.dropout, "a number from 0 to below 1")
    for key in ("tf32", "progress", "force", "plan"):
        if not isinstance(cfg[key], bool):
            raise choices(key, cfg[key], "true or false")
    for key in ("ranks", "threads"):
        if cfg[key] is not None:
            _whole(cfg, key, 1)
    if cfg.ranks is not None and cfg.gpus not in ("auto", 0, cfg.ranks):
        raise choices("ranks", cfg.ranks, f"null, or one a GPU with gpus={cfg.gpus}")
    if not (_number(cfg.checkpoint_minutes) and cfg.checkpoint_minutes >= 0):
        raise choices("checkpoint_minutes", cfg.checkpoint_minutes, "a number, 0 or more (0: at every step)")
    price = OmegaConf.select(cfg, "hardware.price_per_hour")
    if price is not None and not (_number(price) and price >= 0):
        raise choices("hardware.price_per_hour", price, "a number, 0 or more, or null for none")
    if cfg.outputs is None:
        raise choices("outputs", cfg.outputs, "a folder")


def _check_language(cfg: DictConfig) -> None:
    """The language chooses the alphabet where that is an interpolation."""
    known = OmegaConf.select(cfg, "languages") or {}
    characters = (OmegaConf.to_container(cfg).get("alphabet") or {}).get("characters")  # type: ignore[union-attr]
    if "data.language" in str(characters) and cfg.data.language not in known:
        raise choices(
            "data.language", cfg.data.language, [*known, "or any with an alphabet of its own: alphabet=derived"]
        )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(cfg: DictConfig, key: str, smallest: int) -> None:
    value = OmegaConf.select(cfg, key)
    if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
        extra = "auto, or " if key == "gpus" else ""
        raise choices(key, value, f"{extra}a whole number, {smallest} or more")


def _batch(cfg: DictConfig) -> None:
    """One of batch.size and batch.seconds is set."""
    size, seconds = cfg.batch.size, cfg.batch.seconds
    if seconds is None:
        if size is None:
            raise choices("batch.size", size, "a whole number, 1 or more, or batch.seconds set instead")
        _whole(cfg, "batch.size", 1)
    elif not (_number(seconds) and seconds > 0):
        raise choices("batch.seconds", seconds, "a number above 0, or null where batch.size is set")
    elif size is not None:
        raise choices("batch.seconds", seconds, f"null beside batch.size={size}, or batch.size=null with it")
