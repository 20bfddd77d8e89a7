"""What people type by mistake: every line ends in a message that names key, value and choices, and none trains."""

import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import build, one_line
from asr_ablations.config.compose import compose
from asr_ablations.config.entry import arrange_words
from asr_ablations.config.plain_keys import check
from asr_ablations.evaluation.request import check_requests
from asr_ablations.tools.files import CONF
from asr_ablations.training.assembly import assemble
from asr_serving.requests import check_export, check_transcription
from asr_verdicts.errors import UsageError
from tests.helpers.support import composed_by_hydra, standing_corpus


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
            compose(CONF, [f"data.root={value}"], name="config", folder=None)
        begin, spelling = str(refused.value).split(
            ": Hydra cannot read this value; to pass it as text, quote it twice: "
        )
        assert begin == f"data.root={value}"
        assert compose(CONF, shlex.split(spelling), name="config", folder=None).data.root == value
