"""All arms of a sweep looked at before the first one starts: wrong values are told now, not at arm 7."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.sweep.processes import ask
from asr_ablations.tools.errors import UsageError


@dataclass(frozen=True)
class Looked:
    """fingerprint: of the arm's data; mistake: what is wrong with the arm, None if nothing."""

    fingerprint: str
    mistake: str | None


def fingerprints(configs: Sequence[DictConfig]) -> list[str]:
    """The fingerprint of each arm's data, which is made where it is made on first use. Raises UsageError that names the
    arm and its mistake.
    """
    texts = [OmegaConf.to_yaml(cfg) for cfg in configs]
    looked: list[Looked] = ask(look, texts)
    for cfg, found in zip(configs, looked, strict=True):
        if found.mistake is not None:
            raise UsageError(f"arm {' '.join(cfg.overrides) or 'default'}: {found.mistake}")
    return [found.fingerprint for found in looked]


def look(texts: Sequence[str]) -> list[Looked]:
    """In a process of its own: build every arm's model, read every corpus once."""
    known: dict[str, str] = {}
    return [_look(OmegaConf.create(text), known) for text in texts]


def _look(cfg: Any, known: dict[str, str]) -> Looked:
    from asr_ablations.experiment.run import set_up

    if not is_training(cfg):
        return Looked("", None)
    key = json.dumps(OmegaConf.to_container(cfg.data), sort_keys=True)
    try:
        if key in known:
            _build(cfg)
        else:
            known[key] = set_up(cfg).data.fingerprint
    except UsageError as error:
        return Looked("", str(error))
    except (MemoryError, RuntimeError):
        # too large for this machine or broken: the arm says so itself, in its own log, when its turn comes
        if key not in known:
            raise
    return Looked(known[key], None)


def _build(cfg: DictConfig) -> None:
    from asr_ablations.config.build import build
    from asr_ablations.training.assembly import assemble, device_count

    device_count(cfg)
    assemble(cfg, build(cfg.data))


def is_training(cfg: DictConfig) -> bool:
    """Whether the arm's result is a trained model, and not a measurement, which is taken anew each time."""
    return "max_epochs" in cfg and "benchmark" not in cfg
