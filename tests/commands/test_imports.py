"""What each command must not import before there is work that needs it. A command says its first word without them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command import SHRUNKEN, run, run_folders
from tests.helpers.interpreter import REPOSITORY, SOURCE
from tests.helpers.run_folders import write_run

pytestmark = pytest.mark.slow

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


def interpret(program: str, *arguments: object, code: int = 0, **variables: str) -> str:
    """What a fresh interpreter prints that runs the program and ends with this exit code."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("COV", "HYDRA"))}
    words = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(
        words, env=environment | variables, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def modules(program: str, *arguments: object, code: int = 0, **variables: str) -> set[str]:
    """The top-level modules that it has imported at its end."""
    last = interpret(program, *arguments, code=code, **variables).splitlines()[-1].split()
    assert last[0] == "modules"
    assert "asr_ablations" in last, "it ran"
    return set(last)


@pytest.fixture(scope="module")
def done_sweep(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """The overrides of a trained arm, and its folder."""
    outputs = tmp_path_factory.mktemp("outputs")
    overrides = ["rnn=gru", *SHRUNKEN, "max_epochs=1", "logger=csv", "sweep=done"]
    trained = run(["src/train.py", "-m", *overrides], corpora, outputs)
    assert trained.returncode == 0, trained.stderr
    (folder,) = run_folders(outputs)
    return [*overrides, f"outputs={outputs}"], folder


@pytest.mark.parametrize("name", HELP)
def test_help_imports_nothing_heavy(name: str) -> None:
    assert modules(PROGRAM, SOURCE / f"{name}.py", "--help") & HEAVY == set()


@pytest.mark.parametrize("override", ["seed=x", "rnn=nothing"])
def test_a_wrong_value_is_reported_before_anything_heavy_is_imported(override: str, tmp_path: Path) -> None:
    assert modules(PROGRAM, SOURCE / "train.py", override, f"outputs={tmp_path}", code=2) & HEAVY == set()


@pytest.mark.parametrize("multirun", [[], ["-m"]], ids=["run", "sweep"])
def test_what_is_done_already_is_said_without_torch(
    multirun: list[str], done_sweep: tuple[list[str], Path], corpora: Path
) -> None:
    """The data are read, for their content is a part of what a run is: that takes numpy and soundfile."""
    overrides, folder = done_sweep
    before = (folder / "status.json").read_bytes()
    printed = interpret(PROGRAM, SOURCE / "train.py", *multirun, *overrides, ASR_ABLATIONS_DATA=str(corpora))
    *lines, last = printed.splitlines()
    assert ("done already" if not multirun else "1 of 1 arms were already done") in "\n".join(lines)
    assert set(last.split()) & HEAVY == {"numpy", "soundfile"}
    assert (folder / "status.json").read_bytes() == before


def test_a_run_says_what_it_trains_before_torch_is_imported(tmp_path: Path) -> None:
    without_torch = f"import sys; sys.modules['torch'] = None\n{PROGRAM}"
    printed = interpret(without_torch, SOURCE / "train.py", "seed=7", f"outputs={tmp_path}", code=1)
    first = printed.splitlines()[0]
    assert first.startswith(f"starts seed-7 in {tmp_path}/single: seed=7 width="), first


def test_a_comparison_without_its_page_imports_no_figures(tmp_path: Path) -> None:
    for seed in (1, 2):
        for rnn, rate in (("lstm", 0.2), ("gru", 0.3)):
            write_run(tmp_path, f"rnn={rnn}", f"seed={seed}", rate=rate, noise=seed)
    assert modules(PROGRAM, SOURCE / "compare.py", tmp_path / "sweep", "--no-page") & HEAVY == {"numpy", "scipy"}


def test_a_sweep_of_wandb_is_written_without_wandb(tmp_path: Path) -> None:
    words = [SOURCE / "sweep.py", "wandb", "sweeps/rnn_type.yaml", "--output", tmp_path / "definition.yaml"]
    assert modules(PROGRAM, *words) & HEAVY == set()


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
