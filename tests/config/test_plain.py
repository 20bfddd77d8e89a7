"""A config for tables of runs: options by their names, dotted keys, nothing of the machine."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from asr_ablations.config.option_names import plain_config
from tests.helpers.support import compose, group_options


def plain(*overrides: str) -> dict[str, Any]:
    cfg = compose("data=an4", *overrides)
    cfg.overrides = list(overrides)
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    return plain_config(config)


@pytest.mark.parametrize("group", ["rnn", "norm", "optimizer", "schedule", "model", "augment", "gradient", "features"])
def test_every_option_has_its_own_name(group: str) -> None:
    """Options that share a class too: they differ in their values."""
    for option in group_options(group):
        assert plain("data.root=x", f"{group}={option}")[group] == option


def test_values_are_dotted_and_those_that_change_nothing_are_left_out() -> None:
    config = plain("data.root=x", "rnn=gru", "optimizer.lr=0.1", "outputs=/somewhere", "+ablation.question=why")
    assert (config["rnn"], config["optimizer.lr"], config["batch.size"]) == ("gru", 0.1, 8)
    assert config["overrides"] == ["rnn=gru", "optimizer.lr=0.1"]
    assert config["ablation"] == {"question": "why"}
    assert not {"outputs", "logger", "logger.project", "threads", "data.root", "cache.root"} & {*config}
    assert not [key for key in config if key.endswith(("_target_", "_partial_"))]


def test_no_path_shows_the_home_folder() -> None:
    home = Path.home()
    assert plain("data.root=x", "decoder=beam_lm", f"decoder.lm={home}/my.arpa")["decoder.lm"] == "~/my.arpa"
