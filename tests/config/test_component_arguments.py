"""Arguments of components: an error names the key, and values that are plain."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from asr_ablations.components.until.verdict import Verdict
from asr_ablations.config.build import build
from asr_ablations.config.component_arguments import by_key
from asr_ablations.config.option_names import plain_config
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.assembly import assemble
from tests.helpers.support import compose, group_options, standing_corpus


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["optimizer.lr=-1"], "optimizer.lr=-1: Invalid learning rate: -1"),
        (["optimizer=momentum", "optimizer.momentum=-1"], "optimizer.momentum=-1: Invalid momentum value: -1"),
        (["optimizer=momentum", "optimizer.momentum=null"], "optimizer.momentum=null: expected a value, as a number"),
        (["schedule=newbob", "schedule.factor=0"], "schedule.factor=0: expected above 0, to 1"),
        (["schedule=newbob", "schedule.factor=null"], "schedule.factor=null: expected a value, as a number"),
        (["rnn=rnn", "rnn.nonlinearity=x"], "rnn.nonlinearity=x: expected tanh, relu"),
        (["rnn=rnn_relu", "rnn.ceiling=0"], "rnn.ceiling=0: expected a number above 0"),
        (["rnn=rnn_relu", "rnn.ceiling=null"], "rnn.ceiling=null: expected a value, as a number"),
        (["rnn=associative_lstm", "width=7"], "model.width=7: expected an even number"),
        (["norm.momentum=null"], "norm.momentum=null: expected a value, as a number"),
        (["norm.momentum=0"], "norm.momentum=0: expected a number above 0, up to 1"),
        (["features.window=-1"], "features.window=-1: expected seconds from 0.000125 to 1"),
        (["augment=warp_specaugment", "augment.steps.0.most=-1"], "augment.steps.0.most=-1: expected 0 to below 1"),
        (["augment=warp_specaugment", "augment.steps.0.most=null"], "augment.steps.0.most=null: expected a value"),
        (["augment=noise", "augment.folder=5"], "augment.folder=5: expected the path of a file or folder"),
        (["order.buckets=0"], "order.buckets=0: expected a whole number"),
        (["loss=aligned", "loss.run=nowhere"], "loss.run=nowhere: nowhere: no run's folder"),
        (["cache.root=5"], "cache.root=5: expected the path of a file or folder"),
        (["alphabet=en", "alphabet.characters=''"], "alphabet.characters='': expected characters"),
    ],
)
def test_a_refusal_begins_with_the_key(overrides: list[str], line: str) -> None:
    with pytest.raises(UsageError) as refusal:
        assemble(compose("width=8", *overrides), standing_corpus())  # type: ignore[arg-type]
    assert str(refusal.value).startswith(line)


def test_null_is_taken_where_the_class_has_a_use_for_it() -> None:
    node = compose("until=verdict").until
    verdict = build(node)()
    assert isinstance(verdict, Verdict)
    assert (verdict.margin, verdict.looks) == (None, None)
    node.paired = None
    with pytest.raises(UsageError, match=r"^until\.paired=null: expected a value, as true or false$"):
        build(node)


def test_a_value_that_is_mentioned_is_blamed_and_else_all() -> None:
    options = {"_target_": "x", "size": 3, "ends": [1, 5], "inner": [{"size": 4}]}
    assert by_key("a", options, {}, ValueError("5 is odd")) == "a.ends=[1, 5]: 5 is odd"
    assert by_key("a", options, {}, ValueError("size=4: odd")) == "a.inner.0.size=4: odd"
    assert by_key("a", options, {}, ValueError("no")) == "a.size=3, a.ends=[1, 5], a.inner.0.size=4: no"
    assert by_key("a", options, {}, TypeError("no")).startswith("x with a.size=3, ")


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
