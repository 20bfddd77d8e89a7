"""Sweep files as W&B sweeps: how values are written, and how W&B itself reads the definition."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args, load_sweep_config

from asr_ablations.config.compose import compose
from asr_ablations.sweep.wandb_sweep import METHODS, count_arms, definition, parameter
from asr_verdicts.errors import UsageError
from tests.helpers.support import CONF, REPOSITORY, group_options

FILES = sorted((REPOSITORY / "sweeps").glob("*.yaml"))
DECODING = [file for file in FILES if "  - /evaluation" in file.read_text().splitlines()]
LISTING = [file for file in FILES if "arms:" in file.read_text().splitlines()]
SWEEPS = [file for file in FILES if file not in (*DECODING, *LISTING)]


def define(file: Path, *overrides: str, method: str | None = None) -> dict[str, Any]:
    return definition(file, REPOSITORY, overrides, method=method, project=None)


def sweep_file(folder: Path, params: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(f"defaults:\n  - /config\n  - _self_\nhydra:\n  sweeper:\n    params:\n      {params}\n")
    return path


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0,1,2", {"values": [0, 1, 2]}), ("lstm,gru", {"values": ["lstm", "gru"]}),
        ("choice(0.1, 1e-3)", {"values": [0.1, 1e-3]}), ("range(1, 4)", {"values": [1, 2, 3]}),
        ("null,1.0", {"values": ["null", 1.0]}),  # W&B would write Python's None, which Hydra reads as a text
        ("true,false", {"values": [True, False]}), ("[a,b],[c]", {"values": ["[a,b]", "[c]"]}),
        ("interval(1e-4, 1e-2)", {"distribution": "uniform", "min": 1e-4, "max": 1e-2}),
        ("int(interval(1, 8))", {"distribution": "int_uniform", "min": 1, "max": 8}),
        ("tag(log, interval(1e-4, 1e-2))", {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2}),
        ("int(tag(log, interval(1, 8)))", {"distribution": "q_log_uniform_values", "min": 1, "max": 8}),
        ("7", {"value": 7}),
    ],
)  # fmt: skip
def test_values_by_hydras_grammar(value: str, expected: dict[str, Any]) -> None:
    assert parameter("key", value, CONF) == expected


@pytest.mark.parametrize("value", ["null,1.0", "true,false", "[a,b],[c]", "a b,'c, d'", "0.001,-3"])
def test_hydra_reads_back_what_an_agent_writes(value: str) -> None:
    """key={value} of Python's str, as W&B's create_sweep_command_args makes it."""
    parser = OverridesParser.create()
    (swept,) = parser.parse_overrides([f"key={value}"])
    expected = [_value(element) for element in swept.sweep_iterator()]
    read = []
    for element in parameter("key", value, CONF)["values"]:
        (line,) = create_sweep_command_args({"args": {"key": {"value": element}}})["args_no_hyphens"]
        read.append(_value(parser.parse_overrides([line])[0].value()))
    assert read == expected


def _value(element: Any) -> Any:
    if isinstance(element, list):
        return [_value(part) for part in element]
    return element.text if isinstance(element, QuotedString) else element


def test_a_glob_is_a_groups_options() -> None:
    assert parameter("rnn", "glob(*)", CONF) == {"values": group_options("rnn")}


@pytest.mark.parametrize("file", DECODING, ids=lambda path: path.stem)
def test_a_sweep_that_trains_nothing_is_refused(file: Path) -> None:
    with pytest.raises(UsageError, match="train nothing"):
        define(file)


@pytest.mark.parametrize("file", LISTING, ids=lambda path: path.stem)
def test_a_list_of_arms_is_refused(file: Path) -> None:
    with pytest.raises(UsageError, match="W&B's sweeps have no lists of arms"):
        define(file)


@pytest.mark.filterwarnings("ignore:.*<_io.FileIO")  # W&B leaves the file open
@pytest.mark.parametrize("file", SWEEPS, ids=lambda path: path.stem)
def test_every_sweep_file_becomes_a_definition_that_wandb_reads(file: Path, tmp_path: Path) -> None:
    written = define(file)
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(written))
    assert load_sweep_config(str(path)) == written
    assert written["method"] in METHODS
    assert (written["method"] == "grid") == (count_arms(written["parameters"]) is not None)


@pytest.mark.parametrize("file", SWEEPS, ids=lambda path: path.stem)
def test_what_an_agent_runs_is_an_arm_of_the_sweep_file(file: Path) -> None:
    """W&B's own expansion of the command, composed as Hydra would: the config has the requested values."""
    written = define(file, "max_epochs=3")
    chosen = {key: {"value": p.get("values", [p.get("min")])[-1]} for key, p in written["parameters"].items()}
    expanded = create_sweep_command_args({"args": chosen})
    macros = {"env": ["/usr/bin/env"], "interpreter": ["python"], "program": [written["program"]], **expanded}
    words = [w for word in create_sweep_command(written["command"]) for w in macros.get(word[2:-1], [word])]
    assert words[:3] == ["/usr/bin/env", "python", "src/train.py"]
    assert words[3:7] == ["-cd", "sweeps", "-cn", file.stem]
    cfg = compose(CONF, words[7:], name=words[6], folder=REPOSITORY / words[4])
    assert (cfg.sweep, cfg.max_epochs) == (file.stem, 3)
    assert cfg.ablation.question
    for key, value in chosen.items():
        folders = [*CONF.iterdir(), *(REPOSITORY / "sweeps").iterdir()]
        if key not in {folder.name for folder in folders if folder.is_dir()}:
            assert (None if value["value"] == "null" else value["value"]) == _select(cfg, key)


def _select(cfg: Any, key: str) -> Any:
    for part in key.split("."):
        cfg = cfg[part]
    return cfg


def test_the_grid_is_the_sweeps_arms() -> None:
    parameters = define(REPOSITORY / "sweeps" / "rnn_type.yaml")["parameters"]
    grid = list(itertools.product(*(values["values"] for values in parameters.values())))
    assert count_arms(parameters) == len(grid) == 9


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "dev-clean"),
        (["data=librispeech", "data.validation=[dev-other]"], "dev-other"),
        (["data=manifest", "data.validation=lists/dev.jsonl"], "dev"),
        (["data=kaldi", "data.validation=[data/dev,data/eval]"], "dev"),
    ],
)
def test_the_metric_is_of_the_first_validation_set(overrides: list[str], name: str) -> None:
    metric = define(REPOSITORY / "sweeps" / "rnn_type.yaml", *overrides)["metric"]
    assert metric == {"name": f"validation/{name}/wer", "goal": "minimize"}


def test_a_sweep_file_elsewhere_is_named_by_its_whole_path(tmp_path: Path) -> None:
    written = define(sweep_file(tmp_path, "seed: 0,1"))
    assert written["command"][4] == str(tmp_path)


@pytest.mark.parametrize(
    ("params", "method", "message"),
    [
        ("seed: range(0", None, "hydra.sweeper.params.seed: "),
        ("dropout: interval(0, 0.5)", "grid", "method=grid: dropout is an interval; expected random or bayes"),
        ("seed: 0,1", "best", "method=best: expected grid, random, bayes"),
    ],
)
def test_mistakes(params: str, method: str | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        define(sweep_file(tmp_path, params), method=method)


def test_a_file_that_varies_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text("defaults:\n  - /config\n")
    with pytest.raises(UsageError, match="varies nothing"):
        define(path)
    with pytest.raises(UsageError, match="there is no such sweep file"):
        define(tmp_path / "absent.yaml")
