"""What each command must not import before there is work that needs it. A command says its first word without them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.interpreter import REPOSITORY, SOURCE

LEARNING = {"torch", "torchaudio", "torchmetrics", "pytorch_lightning", "lightning_fabric", "wandb"}
FIGURES = {"matplotlib", "plotly", "pandas"}
HEAVY = LEARNING | FIGURES | {"scipy", "numpy", "sklearn", "sympy", "optuna", "sqlalchemy", "soundfile", "onnx", "jax"}
"""What takes a tenth of a second or more to import, or brings along what does."""

PROGRAM = """
import atexit, runpy, sys
atexit.register(lambda: print("\\nmodules", *sorted({name.partition(".")[0] for name in sys.modules})))
sys.argv = sys.argv[1:]
sys.path.insert(0, %r)
runpy.run_path(sys.argv[0], run_name="__main__")
""" % str(SOURCE)  # noqa: UP031  # braces of the program would have to be doubled

HELP = ["train", "prepare", "evaluate", "transcribe", "export", "benchmark", "lm", "reproduce", "compare", "sweep"]


def modules(program: str, *arguments: object, code: int = 0) -> set[str]:
    """The top-level modules that a fresh interpreter has imported when the program ends with this exit code."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("COV", "HYDRA"))}
    words = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(words, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "modules"
    assert "asr_ablations" in last, "it ran"
    return set(last)


@pytest.mark.parametrize("name", HELP)
def test_help_imports_nothing_heavy(name: str) -> None:
    assert modules(PROGRAM, SOURCE / f"{name}.py", "--help") & HEAVY == set()


@pytest.mark.parametrize("override", ["seed=x", "rnn=nothing"])
def test_a_wrong_value_is_reported_before_anything_heavy_is_imported(override: str, tmp_path: Path) -> None:
    assert modules(PROGRAM, SOURCE / "train.py", override, f"outputs={tmp_path}", code=2) & HEAVY == set()


def test_the_reference_of_options_imports_nothing_heavy() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from asr_ablations.commands.options import page; page()"
    )
    listed = 'print("\\nmodules", *sorted({name.partition(".")[0] for name in sys.modules}))'
    assert modules(f"{program}; {listed}") & HEAVY == set()


def test_training_imports_neither_figures_nor_audio_metrics() -> None:
    """Lightning would, through torchmetrics; the arms of a sweep are forked from a process with all of PRELOAD."""
    program = f"""
import importlib, sys
sys.path.insert(0, {str(SOURCE)!r})
from asr_ablations.sweep.processes import PRELOAD
for name in PRELOAD:
    importlib.import_module(name)
print("\\nmodules", *(name for name in sys.modules))
"""
    imported = modules(program)
    assert {"pytorch_lightning.trainer", "torchmetrics.text"} <= imported
    assert imported & {"matplotlib", "scipy.signal", "scipy.stats", "pandas", "plotly"} == set()
