"""From a resolved config to objects, and the checks of plain keys."""

import re
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.errors import UsageError, choices

COMPONENTS = (
    *("alphabet", "augment", "averaging", "benchmark", "cache", "data", "decoder", "features", "gradient"),
    *("init", "lm", "logger", "loss", "model", "norm", "optimizer", "order", "pretrain"),
    *("pruning", "rnn", "schedule", "trainer"),
)
TRUSTED = (*(f"asr_ablations.{group}." for group in COMPONENTS), "torch.nn.", "torch.optim.")
"""Where a _target_ may point; a config can come from a stranger's run folder."""

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


def check_targets(cfg: DictConfig) -> None:
    """Resolve any config, and see what it would build. Raises UsageError for what is missing or not trusted."""
    try:
        OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise UsageError(" ".join(str(error).split())) from error
    content = OmegaConf.to_container(cfg)
    assert isinstance(content, dict)
    content.pop("overrides", None)  # what the user typed, interpolations and all; nothing is built from it
    _check_targets(content)


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


def _check_targets(node: Any) -> None:
    if isinstance(node, dict):
        target = node.get("_target_")
        if target is not None and not (isinstance(target, str) and target.startswith(TRUSTED)):
            raise UsageError(f"_target_={target}: refused, only {', '.join(t + '*' for t in TRUSTED)} are trusted")
        for value in node.values():
            _check_targets(value)
    elif isinstance(node, list):
        for value in node:
            _check_targets(value)
    elif isinstance(node, str) and "${" in node:
        # Hydra resolves once more when it instantiates: what appears then has been checked by nobody
        raise UsageError(f"{node}: refused, an interpolation within a resolved config")


def build(node: DictConfig, *positional: Any, **keywords: Any) -> Any:
    """The object that a config node describes. Refuses targets that are not defined where they claim to be, and turns
    a mistake in the values into a UsageError.
    """
    from hydra.errors import InstantiationException
    from hydra.utils import get_object, instantiate

    options = OmegaConf.to_container(node, resolve=True)
    _check_targets(options)
    for target in _targets(options):
        try:
            home = getattr(get_object(target), "__module__", "") or ""
        except ImportError as error:
            raise UsageError(f"_target_={target}: there is no such class or function") from error
        if not f"{home}.".startswith(TRUSTED):
            # asr_ablations.x.os.system begins as ours does: what counts is where the object was defined
            raise UsageError(f"_target_={target}: refused, it is defined in {home or 'no module'}")
    try:
        # the default conversion hands over DictConfigs; plain containers are simpler to work with
        return instantiate(options, *positional, _convert_="all", **keywords)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, (ValueError, TypeError)):
            raise UsageError(f"{options.get('_target_')}: {cause}") from cause  # type: ignore[union-attr]
        raise


def _targets(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["_target_"]] if "_target_" in node else []
        return own + [t for value in node.values() for t in _targets(value)]
    return [t for value in node for t in _targets(value)] if isinstance(node, list) else []


def slug(text: str) -> str:
    """Letters that are safe in a folder name and need no quotes in a Hydra override: no '=', no ','."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.") or "run"
