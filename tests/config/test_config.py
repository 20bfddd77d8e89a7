"""Values and targets that are refused, arguments of components, and every yaml of every group."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.components.until.verdict import UntilVerdict
from asr_ablations.config.build import build, one_line, reword_error
from asr_ablations.config.plain_keys import check
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import slug
from tests.helpers.support import CONF, compose, defaults, group_options, groups


def with_value(key: str, value: Any) -> DictConfig:
    cfg = compose()
    OmegaConf.update(cfg, key, value)
    return cfg


def test_wrong_values_of_every_plain_key_are_named_with_its_choices() -> None:
    """A new key of conf/config.yaml comes with wrong values here, or with those of what it holds."""
    wrong = {
        "precision": ([8, "16", True], "32, 16, bf16, 16-master, 16-true, bf16-true"),
        "tf32": (["maybe", 1, None], "true or false"),
        "nodes": ([0, 1.5, None, 10**5], "from 1 to 10000"),
        "seeds.init": ([-1, "a", True], "from 0 to 9223372036854775807"),
        "seeds.order": ([-1], "from 0 to 9223372036854775807"),
        "seeds.augment": ([-1], "from 0 to 9223372036854775807"),
        "seeds.dropout": ([-1], "from 0 to 9223372036854775807"),
        "gpus": ([-1, "all", None, True], "auto"),
        "seed": ([-1, 1.5, None, True, 2**63], "from 0 to 9223372036854775807"),
        "max_epochs": ([0, "a", False, 10**400], "from 1 to 1000000"),
        "width": ([0, "wide", 10**9], "from 1 to 65536"),
        "layers": ([0, 2.0, 10**400], "from 1 to 1000"),
        "batch.size": ([0, "big", None, 10**9], "from 1 to 1000000"),
        "batch.accumulate": ([0, None, 10**9], "from 1 to 1000000"),
        "weights": ([3, "nowhere"], "a run's folder"),
        "weights_parts": (["output", ["output"]], "weights=<run folder or .ckpt>"),
        "weights_sha256": (["00"], "weights=<run folder or .ckpt>"),
        "batch.seconds": ([0, "long", True, float("nan"), 200], "null"),
        "workers": ([-1, 0.5, None, 1025], "from 0 to 1024"),
        "hardware.price_per_hour": ([-1, "cheap", True], "a number, 0 or more, or null"),
        "progress": (["maybe"], "true"),
        "force": ([2], "true"),
        "plan": ([None], "true"),
        "ranks": ([0, "auto", True, 10**6], "from 1 to 1024"),
        "threads": ([0, "all", 10**5], "from 1 to 1024"),
        "checkpoint_minutes": ([-1, "often", None, 1e20], "from 0 to 1e+06"),
        "utilisation_seconds": ([0, "often", None, 1e20], "above 0, up to 1e+06"),
        "transcripts.every": ([0, "often"], "a whole number, 1 or more, or null"),
        "transcripts.utterances": ([0, None], "a whole number, 1 or more"),
        "outputs": ([None, "", 5, []], "a path"),
        "sweep": (["", "\x1b[31mx", True, {"a": 1}, float("nan")], "a name, or null"),
        "arm": (["", []], "a name, or null"),
        "best": (["ter", None], "loss, wer, cer, cer_longer"),
    }
    for key, (values, expected) in wrong.items():
        for value in values:
            with pytest.raises(UsageError) as told:
                check(with_value(key, value))
            assert str(told.value).startswith(f"{key}={value}: expected ")
            assert expected in str(told.value)
            assert "\n" not in str(told.value)
    keys = set(OmegaConf.load(CONF / "config.yaml")) - {"defaults", "hydra", *groups()}
    # tests/components/model/test_model.py, tests/native/test_extension.py, tests/components/callbacks
    elsewhere = {"dropout", "native", "callbacks"}
    held = {"overrides", "batch", "hardware", "seeds", "ablation", "transcripts", "arms"}
    assert keys - held - elsewhere == {key for key in wrong if "." not in key}


def test_batches_are_so_many_or_so_long_and_what_is_missing_is_the_users_mistake() -> None:
    check(with_value("batch", {"size": None, "seconds": 200.5}))
    for key, value, told in (
        ("batch", {"size": 16, "seconds": 200}, "batch.size=16"),
        ("batch", {"size": None, "seconds": None}, "batch.seconds"),
        ("dropout", "${nowhere}", "nowhere"), ("data.language", "xx", "xx"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=told):
            check(with_value(key, value))


def test_a_target_that_is_no_component_is_refused(tmp_path: Path) -> None:
    """Called or partial, by itself or nested. The arguments would leave a file under most of these targets."""
    for target in (
        "os.system", "asr_ablations.runs.folder.subprocess.run", "asr_ablations_evil.system",
        "torch.nn.modules.module.torch.os.system", "torch.serialization.load", "asr_verdicts.files.write",
    ):  # fmt: skip
        called = {"_target_": target, "_args_": [f"touch {tmp_path / 'executed'}"]}
        for node in (called, {**called, "_partial_": True}):
            for outer in (node, {"_target_": "torch.optim.SGD", "lr": 2, "momentum": [node]}):
                with pytest.raises(UsageError, match="refused"):
                    build(OmegaConf.create(outer))
    assert not (tmp_path / "executed").exists()


def test_a_target_hidden_in_an_interpolation_is_not_called(tmp_path: Path) -> None:
    """oc.create turns text into a config, and each resolving takes one backslash away."""
    for escapes in range(4):
        hidden = f"{{_target_: os.mkdir, path: {tmp_path / 'executed'}}}"
        value = "\\" * (2**escapes - 1) + f'${{oc.create:"{hidden}"}}'
        cfg = compose()
        target = "asr_ablations.components.rnn.lstm.LSTM"
        OmegaConf.update(cfg, "rnn", {"_target_": target, "_partial_": True, "size": value}, merge=False)
        for read in (check, lambda cfg: build(cfg.rnn)):
            with pytest.raises(UsageError):
                read(cfg)
    assert not (tmp_path / "executed").exists()


def test_check_refuses_targets_of_strangers_before_anything_is_built() -> None:
    for target in ("os.system", "asr_ablations", 3, ""):
        cfg = compose()
        OmegaConf.update(cfg, "augment.steps", [{"deep": {"_target_": target}}], force_add=True)
        with pytest.raises(UsageError, match=f"_target_={target}: refused"):
            check(cfg)


def test_wrong_arguments_are_the_users_mistake_and_components_get_plain_containers() -> None:
    for wrong in ({"mot": 2}, {"lr": 2, "colour": "red"}):
        with pytest.raises(UsageError, match=r"torch\.optim\.SGD.*(mot|colour)"):
            build(OmegaConf.create({"_target_": "torch.optim.SGD", **wrong}))
    node = {"_target_": "torch.optim.SGD", "_partial_": True, "betas": [3, 5], "padding": {"a": [1]}}
    keywords = build(OmegaConf.create(node)).keywords
    assert [type(keywords["betas"]), type(keywords["padding"]), type(keywords["padding"]["a"])] == [list, dict, list]


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in groups() for name in group_options(group)])
def test_every_option_composes_resolves_and_passes(group: str, name: str) -> None:
    cfg = compose(f"{group}={name}")
    check(cfg)
    if cfg[group] is None:
        assert name == "none"
        return
    target = cfg[group]._target_
    home = f"asr_ablations.components.{group}."
    assert target.startswith((home, "torch.optim.")), f"{target} lies in the folder of its group"


def test_every_folder_of_conf_is_a_group_that_a_config_chooses_from() -> None:
    chosen = {group for file in CONF.glob("*.yaml") for group in defaults(file.stem)}
    added = {"recipe", "condition", "callbacks"}  # by words of their own
    assert {folder.name for folder in CONF.iterdir() if folder.is_dir()} == chosen | added


def test_names_are_safe_and_a_value_with_a_carriage_return_behind_it_is_shown_whole() -> None:
    texts = {"rnn-gru+seed-1": "rnn-gru+seed-1", "a=b,c d/e": "a-b-c-d-e", "../..": "run", "ż": "run", "-a.": "a"}
    assert {text: slug(text) for text in texts} == texts
    assert one_line(choices("data.test", "test\r", ["train", "test"])) == r"data.test=test\r: expected train, test"


def test_null_is_taken_where_the_class_has_a_use_for_it() -> None:
    node = compose("until=verdict").until
    verdict = build(node)()
    assert isinstance(verdict, UntilVerdict)
    assert (verdict.margin, verdict.looks) == (None, None)


def test_a_value_that_is_mentioned_is_blamed_and_else_the_class() -> None:
    options = {"_target_": "x", "size": 3, "ends": [1, 5], "inner": [{"size": 4}]}
    assert reword_error("a", options, {}, ValueError("5 is odd")) == "a.ends=[1, 5]: 5 is odd"
    assert reword_error("a", options, {}, ValueError("size=4: odd")) == "a.inner.0.size=4: odd"
    assert reword_error("a", options, {}, ValueError("no")) == "x: no"
    assert reword_error("a", options, {}, TypeError("no")) == "x: no"


def test_a_config_for_people_has_names_of_options_dotted_values_and_no_home_folder() -> None:
    """Options that share a class have their own names, too: they differ in their values. What changes nothing is left
    out.
    """

    def plain(*overrides: str) -> dict[str, Any]:
        cfg = compose("data=an4", *overrides)
        cfg.overrides = list(overrides)
        config: Any = OmegaConf.to_container(cfg, resolve=True)
        return plain_config(config)

    for group in ("optimizer", "augment"):
        for option in group_options(group):
            assert plain("data.root=x", f"{group}={option}")[group] == option
    config = plain("data.root=x", "rnn=gru", "optimizer.lr=0.1", "outputs=/somewhere", "+ablation.question=why")
    assert (config["rnn"], config["optimizer.lr"], config["batch.size"]) == ("gru", 0.1, 8)
    assert config["overrides"] == ["rnn=gru", "optimizer.lr=0.1"]
    assert config["ablation"] == {"question": "why"}
    assert not {"outputs", "logger", "logger.project", "threads", "data.root", "cache.root"} & {*config}
    assert not [key for key in config if key.endswith(("_target_", "_partial_"))]
    words = ("data.root=x", "decoder=beam_lm", f"decoder.lm={Path.home()}/my.arpa")
    assert plain(*words)["decoder.lm"] == "~/my.arpa"
