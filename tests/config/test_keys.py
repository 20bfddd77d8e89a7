"""Keys that are computed, chosen or wrong, and what is said of them."""

import shlex
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import build, one_line
from asr_ablations.config.compose import compose as compose_file
from asr_ablations.config.entry import arrange_words
from asr_ablations.config.keys import ELSEWHERE, print_unread, read_keys
from asr_ablations.config.plain_keys import check
from asr_ablations.config.targets import options_by_name
from asr_ablations.evaluation.request import check_requests
from asr_ablations.tools.files import CONF
from asr_ablations.training.assembly import assemble
from asr_serving.requests import check_export, check_transcription
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose, composed_by_hydra, standing_corpus


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


def build_parts(cfg: DictConfig) -> None:
    check(cfg)
    build(cfg.data)
    assemble(cfg, standing_corpus())


COMMANDS = {
    "train": ("config", check), "build": ("config", build_parts), "prepare": ("prepare", check),
    "lm": ("language_model", check), "benchmark": ("benchmarks", check), "evaluate": ("evaluation", check_requests),
    "export": ("export", check_export), "transcribe": ("transcribe", check_transcription),
}  # fmt: skip
"""The file of conf/ that each command begins with, and what checks its config."""
TABLE = Path(__file__).with_name("refused.txt").read_text(encoding="utf-8").splitlines()
ANSWERS = dict(line.split(" | ") for line in TABLE if line and not line.startswith("#"))


def begin(typed: str) -> None:
    """Check the words as the command does, in a sweep those of its first arm."""
    command, *words = typed.split()
    name, check_config = COMMANDS[command]
    overrides = [word for word in arrange_words(words, name) if word != "-m"]
    parsed = OverridesParser.create().parse_overrides(overrides)
    swept = [override.is_sweep_override() for override in parsed]
    first = [word.partition(",")[0] if several else word for word, several in zip(overrides, swept, strict=True)]
    try:
        cfg = composed_by_hydra(tuple(first), name)
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(one_line(error)) from error
    cfg.overrides = first
    check_config(cfg)


@pytest.mark.parametrize("typed", [*ANSWERS])
def test_a_wrong_word_is_one_line(typed: str) -> None:
    with pytest.raises(UsageError) as refused:
        begin(typed)
    assert str(refused.value).startswith(ANSWERS[typed])
    assert "\n" not in str(refused.value)


def test_options_may_stand_anywhere() -> None:
    words = ["seed=1", "-m", "rnn=lstm,gru", "-cd", "sweeps", "--config-name", "rnn_type", "plan=true"]
    expected = ["-m", "-cd", "sweeps", "--config-name", "rnn_type", "seed=1", "rnn=lstm,gru", "plan=true"]
    assert arrange_words(words, "config") == expected
    assert arrange_words(["--cfg", "job", "--resolve"], "config") == ["--cfg", "job", "--resolve"]
    assert arrange_words(["-sc", "install=bash"], "config") == ["-sc", "install=bash"]


def test_words_that_contradict_each_other_or_do_nothing_are_refused() -> None:
    for words, line in (
        (["seed=1", "seed=2"], "seed=1 seed=2: seed is set twice; expected it once"),
        (["+x=1", "++x=2"], "+x=1 ++x=2: x is set twice; expected it once"),
        (["-m", "rnn=lstm,gru", "--cfg", "job"], "--multirun and --cfg: expected one of them"),
        (["hydra.sweep.dir=/x"], "hydra.sweep.dir=/x: nothing is written there; expected outputs=<folder>"),
    ):
        with pytest.raises(UsageError) as refused:
            arrange_words(words, "config")
        assert str(refused.value) == line
    assert arrange_words(["seed=1", "seeds=1"], "config") == ["seed=1", "seeds=1"]


def test_a_value_that_hydra_cannot_read_comes_with_its_spelling() -> None:
    for value in ("/my data (v1), ż", "a=b", "it's", "a(b", 'a"b c'):
        with pytest.raises(UsageError) as refused:
            compose_file(CONF, [f"data.root={value}"], name="config", folder=None)
        begin, spelling = str(refused.value).split(
            ": Hydra cannot read this value; to pass it as text, quote it twice: "
        )
        assert begin == f"data.root={value}"
        assert compose_file(CONF, shlex.split(spelling), name="config", folder=None).data.root == value
