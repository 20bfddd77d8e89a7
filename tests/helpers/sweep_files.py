"""The sweep files, composed as their commands compose them."""

import functools
import itertools
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode
from omegaconf import DictConfig

from asr_ablations.runs.listed_arms import read_arms
from asr_ablations.tools.files import REPOSITORY
from tests.helpers.support import CONF, loader

SWEEPS = REPOSITORY / "sweeps"
NAMES = sorted(path.stem for path in SWEEPS.glob("*.yaml"))


@functools.cache
def composed(name: str, *overrides: str) -> DictConfig:
    """A sweep file as `-cd sweeps -cn <name>` composes it, the same object each time."""
    words = [f"hydra.searchpath=[file://{CONF}]", *overrides]
    return loader(SWEEPS).load_configuration(name, words, RunMode.RUN, from_shell=False)


def is_decoding(name: str) -> bool:
    """Whether the arms decode a trained run, with src/evaluate.py."""
    return "  - /evaluation\n" in (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8")


def is_search(cfg: Any) -> bool:
    return "n_trials" in cfg.hydra.sweeper


def choices(cfg: Any) -> dict[str, list[str]]:
    """Key → the values that the sweep gives it, as overrides."""
    parser = OverridesParser.create()
    read = {key: parser.parse_override(f"{key}={values}") for key, values in cfg.hydra.sweeper.params.items()}
    return {
        key: list(one.sweep_string_iterator()) if one.is_sweep_override() else [one.get_value_element_as_str()]
        for key, one in read.items()
    }


def arms(cfg: Any) -> list[list[str]]:
    values = choices(cfg)
    listed = [arm.overrides for arm in read_arms(cfg.get("arms"))] or [[]]
    return [
        [*(f"{key}={value}" for key, value in zip(values, arm, strict=True)), *words]
        for arm in itertools.product(*values.values())
        for words in listed
    ]
