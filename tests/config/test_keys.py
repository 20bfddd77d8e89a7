"""A key that nothing reads is refused, with the nearest one that exists."""

from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from asr_ablations.config.compose import compose as compose_file
from asr_ablations.config.keys import ELSEWHERE, print_unread, read_keys
from asr_ablations.config.plain_keys import check
from asr_ablations.config.targets import options_by_name
from asr_ablations.tools.files import CONF
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose


def test_what_something_reads_may_be_added_and_a_strangers_overrides_may_be_anything() -> None:
    for override in ("+optimizer.amsgrad=true", "++seed=3"):
        cfg = compose(override)
        cfg.overrides = [override]
        assert check(cfg) is None
    cfg = compose()
    cfg.overrides = {"a": "b"}
    assert check(cfg) is None


def test_other_commands_refuse_them_too_and_every_primary_file_knows_its_own_keys() -> None:
    with pytest.raises(UsageError, match=r"^decoders: there is no such key"):
        compose_file(CONF, ["+decoders=beam", "overrides=[]"], name="evaluation", folder=None)
    for path in CONF.glob("*.yaml"):
        plain, groups = read_keys(path.stem)
        assert not {*plain} & {*groups}
        assert "data" in groups or path.stem in ("evaluation", "export", "transcribe"), path.stem


def mine(folder: Path, text: str) -> None:
    (folder / "mine.yaml").write_text(f"defaults: [/config, _self_]\n{text}\n")
    compose_file(CONF, ["overrides=[]"], name="mine", folder=folder)


def test_a_key_of_a_users_file_must_be_read_or_referred_to(tmp_path: Path) -> None:
    for text, message in (
        ("max_epoch: 3", "^max_epoch: there is no such key; nearest: max_epochs"),
        ("batch: {sise: 3}", r"^batch\.sise: there is no such key; nearest: batch\.size"),
    ):
        with pytest.raises(UsageError, match=message):
            mine(tmp_path, text)
    mine(tmp_path, "sizes: {small: 4}\nbatch: {size: '${sizes.small}'}\nablation: {factor: rnn}")


def test_an_option_of_a_group_beside_the_users_file_may_be_added(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "large.yaml").write_text("# @package _global_\nbatch: {size: 64}\n")
    mine(tmp_path, "width: 8")
    word = "+machine=large"
    cfg = compose_file(CONF, [word, "data=an4", "data.root=x", "overrides=[]"], name="mine", folder=tmp_path)
    cfg.overrides = [word]
    check(cfg)
    assert cfg.batch.size == 64


def test_what_templates_call_a_key_is_ours() -> None:
    said = [name for name in ELSEWHERE.values() if not name.startswith("-") and " " not in name]
    launcher = {
        f"hydra.launcher.{name}" for name in ConfigStore.instance().repo["hydra"]["launcher"]["slurm.yaml"].node
    }
    options = [name.split("=") for name in said if "=" in name]
    names = [name for name in said if "=" not in name and name not in launcher]
    cfg = compose()
    assert [name for name in names if OmegaConf.select(cfg, name, default="none") == "none"] == []
    assert [option for group, option in options if option not in options_by_name(group)] == []
    assert [other for other in ELSEWHERE if OmegaConf.select(cfg, other) is not None] == []


def test_what_a_command_does_not_read_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data=an4", "+data.x=1", "max_epochs=3", "++rnn=gru", "max_epochs=4", "hydra.job.chdir=true"]
    print_unread(OmegaConf.create({"overrides": words}), "prepare")
    assert capsys.readouterr().out == "not read here: max_epochs, rnn (src/train.py reads them)\n"
    print_unread(OmegaConf.create({"overrides": ["data=an4"]}), "prepare")
    assert capsys.readouterr().out == ""


def test_the_recipe_for_a_conformer_chooses_options_unless_the_command_line_does() -> None:
    plain, recipe = compose("model=conformer"), compose("model=conformer", "+recipe=conformer")
    assert {key for key in plain if plain[key] != recipe[key]} == {"schedule", "augment"}
    assert recipe.schedule == compose("schedule=cosine").schedule
    assert recipe.augment == compose("augment=specaugment").augment
    assert compose("+recipe=conformer", "schedule=newbob").schedule == compose("schedule=newbob").schedule


def test_lightnings_names_of_precisions_are_taken() -> None:
    assert (compose("precision=16-mixed").precision, compose("precision=32-true").precision) == (16, 32)
