"""Arguments of components: an error names the key, and values that are plain."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.components.until.verdict import UntilVerdict
from asr_ablations.config.build import build, reword_error
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose, group_options


def test_null_is_taken_where_the_class_has_a_use_for_it() -> None:
    node = compose("until=verdict").until
    verdict = build(node)()
    assert isinstance(verdict, UntilVerdict)
    assert (verdict.margin, verdict.looks) == (None, None)
    node.paired = None
    with pytest.raises(UsageError, match=r"^until\.paired=None: expected true or false$"):
        build(node)()


def test_a_value_that_is_mentioned_is_blamed_and_else_the_class() -> None:
    options = {"_target_": "x", "size": 3, "ends": [1, 5], "inner": [{"size": 4}]}
    assert reword_error("a", options, {}, ValueError("5 is odd")) == "a.ends=[1, 5]: 5 is odd"
    assert reword_error("a", options, {}, ValueError("size=4: odd")) == "a.inner.0.size=4: odd"
    assert reword_error("a", options, {}, ValueError("no")) == "x: no"
    assert reword_error("a", options, {}, TypeError("no")) == "x: no"


def plain(*overrides: str) -> dict[str, Any]:
    cfg = compose("data=an4", *overrides)
    cfg.overrides = list(overrides)
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    return plain_config(config)


@pytest.mark.parametrize("group", ["optimizer", "augment"])
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
