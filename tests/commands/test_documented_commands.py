"""The commands of the README and docs/: each composes, and works on a shrunken corpus."""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser

from asr_ablations.commands import compare, reproduce, sweep
from tests.helpers.command import (
    REPOSITORY,
    SHORT_SPEECH,
    SHRUNKEN,
    SMALL_MODEL,
    clean_environment,
    documented_commands,
    run,
    run_folders,
)
from tests.helpers.interpreter import program
from tests.helpers.support import CONF, shared_data

PYTHON = documented_commands()
SEARCH = "src/train.py -m -cd sweeps -cn hyperparameters"
CLASSIC = "src/train.py -m -cd sweeps -cn classic"
OWN_TESTS = (
    "src/benchmark.py",
    "src/compare.py",
    "src/evaluate.py",
    "src/export.py",
    "src/transcribe.py",
    "src/prepare.py",
    "src/reproduce.py",
    "src/sweep.py",
    SEARCH,
    CLASSIC,
    "src/train.py -m hydra/launcher=",
)
"""Commands that tests of their own run, with folders that they need."""
MINI = ["data.train=[train-clean-5]", "data.validation=[dev-clean-2]", "data.test=[test-clean]"]
CONFIGS = {
    **{"train": "config", "prepare": "prepare", "evaluate": "evaluation", "transcribe": "transcribe"},
    **{"export": "export", "lm": "language_model", "benchmark": "benchmarks"},
}
"""The config of each entry script that Hydra runs."""
PARSERS = {"compare": compare.parser, "reproduce": reproduce.parser, "sweep": sweep.parser}


def arguments(line: str, manifests: str) -> list[str]:
    """The command's arguments with its placeholders filled in, shrunken, for one seed."""
    real = {"AN4": "an4", "train-clean-100": "librispeech-mini/LibriSpeech"}
    for placeholder in re.findall(r"<.*?>", line):
        (folder,) = [path for mark, path in real.items() if mark in placeholder]
        line = line.replace(placeholder, str(shared_data(folder)))
    words = shlex.split(line)
    own = {"data=librispeech": MINI, "data=an4": [], "data=manifest": [f"data.root={manifests}"]}
    extra = next((overrides for data, overrides in own.items() if data in words), SHORT_SPEECH)
    narrow = ["model.convolutions.0.channels=8"] if "model=itu" in words else []  # of 600
    extra = [*extra, *SMALL_MODEL, *narrow, "max_epochs=1"]
    seeds = any(re.match("seed=.*,", word) for word in words)
    if "-cn" in words or (seeds and "plan=true" not in words):
        words = [*(word for word in words if not word.startswith("seed=")), "seed=0"]
    return [*words, *extra]


def to_run() -> list[str]:
    """The documented commands without a test of their own; of those that differ in the number of seeds, the first."""
    lines = [line for line in PYTHON if not line.startswith(OWN_TESTS)]
    return list({re.sub(r"seed=\S*,\S*", "seed=…", line): line for line in reversed(lines)}.values())[::-1]


def first_values(words: list[str]) -> list[str]:
    """Overrides of one arm: of each value with commas the first, something for each placeholder."""
    parser = OverridesParser.create()
    parsed = parser.parse_overrides([re.sub("<.*?>", "placeholder", word) for word in words])
    swept = [next(iter(one.sweep_string_iterator())) if one.is_sweep_override() else None for one in parsed]
    return [
        f"{one.key_or_group}={value}" if value else one.input_line for one, value in zip(parsed, swept, strict=True)
    ]


@pytest.mark.parametrize("line", PYTHON)
def test_its_keys_and_options_exist(line):
    """The config of every documented command composes, and its options are those of its parser."""
    script, *words = shlex.split(re.sub("<.*?>", "placeholder", line))
    name = Path(script).stem
    if name in PARSERS:
        PARSERS[name]().parse_known_args(words)
        return
    config, folder = CONFIGS[name], CONF
    if "-cn" in words:
        config, folder = words[words.index("-cn") + 1], REPOSITORY / "sweeps"
    own = [word for word in words if "=" in word]
    path = [] if folder == CONF else [f"hydra.searchpath=[file://{CONF}]"]
    with initialize_config_dir(version_base="1.3", config_dir=str(folder)):
        compose(config, overrides=[*path, *first_values(own), "overrides=[]"])


@pytest.mark.slow
@pytest.mark.parametrize("line", to_run())
def test_it_runs(line, manifests, corpora, tmp_path):
    done = run(arguments(line, manifests), corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert bool(run_folders(tmp_path)) != ("plan=true" in line)


@pytest.mark.slow
def test_make_train(corpora, tmp_path):
    overrides = " ".join([*SHRUNKEN, "max_epochs=1", f"outputs={tmp_path}"])
    done = program(["make", "train", f"ARGS={overrides}"], clean_environment(corpora, tmp_path))
    assert done.returncode == 0, done.stderr
    assert "WER" in done.stdout
    assert len(run_folders(tmp_path)) == 1
