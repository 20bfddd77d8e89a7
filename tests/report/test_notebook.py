"""The project from Python."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import asr_ablations as aa
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.api import compare
from asr_verdicts.errors import UsageError
from tests.helpers.interpreter import SOURCE
from tests.helpers.run_folders import write_sweep

RNN = {"factor": "rnn", "question": "Is a GRU as good?", "baseline": "lstm"}
PAGE = REPOSITORY / "docs" / "python.md"


def in_python(program: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_brings_nothing_in(tmp_path: Path) -> None:
    program = (
        "import sys\nbefore = [*sys.meta_path]\nimport asr_ablations\nassert before == sys.meta_path\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'numpy', 'torch', 'scipy', 'matplotlib'}))"
    )
    assert in_python(program, tmp_path).strip() == ""


def test_the_names_are_listed_and_others_are_none() -> None:
    (version,) = re.findall(r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert aa.__version__ == version
    assert {"open", "compare", "__version__"} <= set(dir(aa))
    assert aa.compare is compare
    with pytest.raises(AttributeError, match="has no attribute 'campare'"):
        aa.campare  # noqa: B018


def test_runs_of_a_sweep(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "outputs", {"rnn=lstm": 0.1, "rnn=gru": 0.4}, seeds=3, ablation=RNN)
    runs = aa.open(folder)
    assert len(runs) == 6
    table = runs.table()
    assert {row["seed"] for row in table} == {0, 1, 2}
    assert {row["set"] for row in table} == {"test"}
    assert "<table>" in table._repr_html_()
    name = runs.names[0]
    assert runs.utterances(name)[0]["words"] > 0
    assert "epoch" in runs.metrics(name)[0]
    with pytest.raises(UsageError, match="other: there is no such run; expected "):
        runs.metrics("other")
    (verdict,) = runs.compare().verdicts
    assert re.match("rnn=gru is worse than rnn=lstm on test: ", verdict.sentence)
    with pytest.raises(UsageError, match="there is no such folder"):
        aa.open(tmp_path / "absent")


@pytest.mark.slow
def test_the_runs_of_the_page_run(memorised_run: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    audio = aa.open(memorised_run).utterances(memorised_run.name)[0]["audio"]
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "rnn_type").symlink_to(memorised_run.parent)
    in_python("".join(blocks).replace('"a.wav"', f'"{audio}"'), tmp_path)
