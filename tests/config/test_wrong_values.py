"""What people type by mistake: every line ends in a message that names key, value and choices, and none trains."""

import re
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from asr_ablations.config.compose import compose
from asr_ablations.config.entry import arranged
from asr_ablations.config.plain_keys import check
from asr_ablations.evaluation.request import check_requests
from asr_ablations.onnx_export.request import check_export
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import CONF, REPOSITORY
from asr_ablations.transcription.request import check_transcription

COMMANDS = {
    "train": ("config", check), "prepare": ("prepare", check), "lm": ("language_model", check),
    "benchmark": ("benchmarks", check), "evaluate": ("evaluation", check_requests),
    "export": ("export", check_export), "transcribe": ("transcribe", check_transcription),
}  # fmt: skip
"""The file of conf/ that each command begins with, and what checks its config."""
RNNS = "associative_lstm, gru, lstm, lstm_basic, lstm_fused, min_gru, rnn, rnn_relu"
ANSWERS = {
    "train +debug=fdr": "debug=fdr: expected fast, none, overfit, profile",
    "train debug=x": "debug=x: expected fast, none, overfit, profile",
    "train -m +lr=1e-3,1e-4": "lr: there is no such key; nearest: optimizer.lr",
    "train lr=1e-3": "lr: there is no such key; nearest: optimizer.lr",
    "train ++lr=1e-3": "lr: there is no such key; nearest: optimizer.lr",
    "train batch_size=8": "batch_size: there is no such key; nearest: batch.size",
    "train experiment=x": "experiment: there is no such key; nearest: -cd sweeps -cn <name>",
    "train ckpt_path=x": "ckpt_path: there is no such key; nearest: weights",
    "train tags=[a]": "tags: there is no such key; docs/options.md lists them all",
    "train epochs=3": "epochs: there is no such key; nearest: max_epochs",
    "train rnn_type=gru": "rnn_type: there is no such key; nearest: rnn",
    "train batch=8": "batch=8: expected keys below it, as batch.size=16",
    "train batch=[8]": "batch=[8]: expected keys below it, as batch.size=16",
    "train seeds=3": "seeds=3: expected keys below it, as seeds.init=<value>",
    "train logger=null": "logger=null: expected csv, several, tensorboard, wandb",
    "train logger=[a,b]": "logger=b: expected csv, several, tensorboard, wandb",
    "train optimizer.lr=abc": "optimizer.lr=abc: expected a number, as 0.003",
    "train rnn=LSTM": f"rnn=LSTM: expected {RNNS}",
    "train rnn=5": f"rnn=5: expected {RNNS}",
    "train precision=fp16": "precision=fp16: expected 32, 16, bf16, 16-master, 16-true, bf16-true",
    "train model=deepspeech": "model=deepspeech: expected ds2, ds2_large, itu, tiny",
    "train max_epochs=x": "max_epochs=x: expected a whole number from 1",
    "train gpus=x": "gpus=x: expected a whole number",
    "train ~optimizer.lr": "~optimizer.lr: nothing can be taken away; expected optimizer.lr=<value>",
    "train ~logger": "~logger: nothing can be taken away; expected logger=csv, logger=several",
    "train ~dropout": "~dropout: nothing can be taken away; expected dropout=<value>",
    "train +lm=ngram": "lm=ngram: this command reads nothing of conf/lm",
    "train lm=ngram": "lm: this command reads nothing of conf/lm",
    "train +decoder@second=beam": "second: there is no such key",
    "train --dropout=0.2": "--dropout=0.2: keys have no dashes; expected dropout=0.2",
    "train --lr 3": "--lr: there is no such option; keys are set as dropout=0.2, and --help lists them",
    "train help": "help: expected key=value; --help lists the keys",
    "prepare /data/corpus": "/data/corpus: expected key=value, as data.root=/data/corpus",
    "prepare data.hour=1": "data.hour: there is no such key; nearest: data.hours",
    "prepare +foo=1": "foo: there is no such key",
    "lm order=4": "order=4: expected bucketed, chunked, shuffled, sortagrad, sorted",
    "lm lm.orders=4": "lm.orders: there is no such key; nearest: lm.order",
    "benchmark benchmark=foo": "benchmark=foo: expected decode, gpu, input",
    "benchmark benchmark.stepz=3": "benchmark.stepz: there is no such key; nearest: benchmark.steps",
    "evaluate outputs/a/b": "outputs/a/b: expected key=value, as run=outputs/a/b",
    "evaluate run=x rnn=gru": "rnn: this command reads nothing of conf/rnn",
    "evaluate run=x +rnn=gru": "rnn=gru: this command reads nothing of conf/rnn",
    "evaluate runs=x": "runs: there is no such key; nearest: until.runs, run",
    "evaluate run=x tune=5": "tune=5: expected keys below it, as tune.trials=0",
    "evaluate run=x activations=[output]": "activations=[output]: expected keys below it, as activations.layers",
    "evaluate run=x decoder=null": "decoder=null: expected beam, ",
    "export run=x out=y": "out: there is no such key; nearest: output",
    "export run=x samples=int8": "samples=int8: expected float, int16",
    "export run=x ~opset": "~opset: nothing can be taken away; expected opset=<value>",
    "transcribe run=x audio=a limits=3": "limits=3: expected keys below it, as limits.megabytes=25",
    "transcribe run=x audio=a +serv=true": "serv: there is no such key; nearest: serve",
}


def begin(typed: str) -> None:
    """Check the words as the command does, in a sweep those of its first arm."""
    command, *words = typed.split()
    name, check_config = COMMANDS[command]
    check_config(composed(name, [word for word in arranged(words, name) if word != "-m"]))


def composed(name: str, overrides: list[str]) -> DictConfig:
    parsed = OverridesParser.create().parse_overrides(overrides)
    swept = [override.is_sweep_override() for override in parsed]
    first = [word.partition(",")[0] if several else word for word, several in zip(overrides, swept, strict=True)]
    cfg = compose(CONF, [*first, "overrides=[]"], name=name, folder=None)
    cfg.overrides = first
    return cfg


@pytest.mark.parametrize("typed", [*ANSWERS])
def test_a_wrong_word_is_one_line(typed: str) -> None:
    with pytest.raises(UsageError) as refused:
        begin(typed)
    assert str(refused.value).startswith(ANSWERS[typed])
    assert "\n" not in str(refused.value)


def test_options_may_stand_anywhere() -> None:
    words = ["seed=1", "-m", "rnn=lstm,gru", "-cd", "sweeps", "--config-name", "rnn_type", "plan=true"]
    expected = ["-m", "-cd", "sweeps", "--config-name", "rnn_type", "seed=1", "rnn=lstm,gru", "plan=true"]
    assert arranged(words, "config") == expected
    assert arranged(["--cfg", "job", "--resolve"], "config") == ["--cfg", "job", "--resolve"]
    assert arranged(["-sc", "install=bash"], "config") == ["-sc", "install=bash"]


def test_a_group_of_a_users_own_folder_may_be_added(tmp_path: Path) -> None:
    (tmp_path / "sizes").mkdir()
    (tmp_path / "sizes" / "small.yaml").write_text("# @package _global_\nbatch: {size: 4}\n")
    (tmp_path / "mine.yaml").write_text("defaults: [/config, _self_]\n")
    assert compose(CONF, ["+sizes=small", "overrides=[]"], name="mine", folder=tmp_path).batch.size == 4


def test_no_documented_command_is_refused_by_its_words() -> None:
    pages = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
    lines = [
        line for page in pages for line in re.findall(r"^python src/train\.py (.*?)(?:  #|$)", page.read_text(), re.M)
    ]
    assert len(lines) > 10
    for line in lines:
        arranged(re.sub("<.*?>", "x", line).split(), "config")
