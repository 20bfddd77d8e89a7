"""The command that starts a sweep again."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asr_ablations.tools.files import REPOSITORY
from publish.sweep_command import sweep_commands


def runs(*overrides: str, ablation: Any = None) -> list[Any]:
    """Records of runs whose overrides are given as lines."""
    return [SimpleNamespace(overrides=line.split(), config={"ablation": ablation}) for line in overrides]


PRODUCT = [f"rnn={rnn} seed={seed}" for rnn in ("rnn", "lstm", "gru") for seed in (0, 1, 2)]


@pytest.mark.parametrize(
    ("shared", "expected"), [("", ""), (" data=an4 max_epochs=3", " data=an4 max_epochs=3"), (" outputs=/tmp/x", "")]
)
def test_a_sweep_file_with_what_all_arms_share(shared: str, expected: str) -> None:
    lines = sweep_commands(
        Path("outputs/rnn_type"), runs(*(line + shared for line in PRODUCT), ablation={"factor": "rnn"})
    )
    assert lines == [f"python src/train.py -m -cd sweeps -cn rnn_type{expected}"]


def test_what_differs_from_the_sweep_file_is_part_of_the_command() -> None:
    lines = sweep_commands(
        Path("outputs/rnn_type"), runs("rnn=lstm seed=0", "rnn=gru seed=0", ablation={"factor": "rnn"})
    )
    assert lines == ["python src/train.py -m -cd sweeps -cn rnn_type rnn=lstm,gru seed=0"]


def test_a_sweep_file_of_the_users_own() -> None:
    lines = sweep_commands(Path("outputs/mine"), runs("seed=0", "seed=1", ablation={"factor": "rnn"}))
    assert lines == ["python src/train.py -m -cd <folder> -cn mine seed=0,1"]


def test_combinations_are_a_single_line_and_others_a_line_per_run() -> None:
    folder = Path("outputs/rnn-lstm-gru")
    assert sweep_commands(folder, runs("rnn=lstm precision=16", "rnn=gru precision=16")) == [
        "python src/train.py -m rnn=lstm,gru precision=16"
    ]
    assert sweep_commands(folder, runs("rnn=lstm", "rnn=gru dropout=0.2")) == [
        "python src/train.py rnn=lstm", "python src/train.py rnn=gru dropout=0.2",
    ]  # fmt: skip
    assert sweep_commands(folder, runs("")) == ["python src/train.py"]


@pytest.mark.parametrize(
    "command",
    [
        ["src/train.py", "-m", "-cd", "sweeps", "-cn", "rnn_type", "data.root=/home/me/an4", "outputs=/tmp/x"],
        [f"{REPOSITORY}/src/train.py", "-m", "-cd", f"{REPOSITORY}/sweeps", "-cn", "rnn_type", "data.root=/a/b"],
        ["/usr/bin/python", "/else/src/train.py", "-m", "-cd", "sweeps", "-cn", "rnn_type", "data.root=/c"],
    ],
)
def test_the_manifest_is_preferred(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps({"command": command}))
    expected = "python src/train.py -m -cd sweeps -cn rnn_type data.root=<folder>"
    assert sweep_commands(tmp_path, runs("rnn=lstm", "rnn=gru")) == [expected]


@pytest.mark.parametrize("text", ["", "{}", "[]", "\x00"])
def test_a_broken_manifest_is_passed_over(text: str, tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(text)
    assert sweep_commands(tmp_path, runs("rnn=lstm", "rnn=gru")) == ["python src/train.py -m rnn=lstm,gru"]


def test_values_are_quoted_for_the_shell_and_paths_are_the_readers() -> None:
    (line,) = sweep_commands(Path("x"), runs("data.train=[a,b]", "data.train=[/a/b,c]")[:1])
    assert line == "python src/train.py 'data.train=[a,b]'"
    assert sweep_commands(Path("x"), runs("data.train=[/a/b,c]")) == ["python src/train.py data.train=[<folder>,c]"]
