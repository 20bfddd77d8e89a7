"""Every command: imports, help, and errors in one line."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from asr_ablations.commands import console
from tests.helpers.command import SHRUNKEN, clean_environment, run_folders
from tests.helpers.interpreter import SOURCE, expect, last_of_each, python
from tests.helpers.run_folders import write_run
from tests.helpers.support import REPOSITORY, group_options

pytestmark = pytest.mark.slow


def test_the_wheel_has_every_config_sweep_and_script(installed: Path) -> None:
    carried = installed / "asr_ablations" / "repository"
    for folder, pattern in (("conf", "**/*.yaml"), ("sweeps", "**/*.yaml"), ("src", "*.py")):
        names = {path.relative_to(REPOSITORY) for path in (REPOSITORY / folder).glob(pattern)}
        assert names
        assert {path.relative_to(carried) for path in (carried / folder).glob(pattern)} == names
    entry = next(installed.glob("*.dist-info/entry_points.txt")).read_text()
    assert "asr-ablations = asr_ablations.commands.console:main" in entry


def test_an_installed_package_trains_from_its_own_sweep_file_and_names_the_command_that_looks_at_it(
    installed: Path, corpora: Path, tmp_path: Path
) -> None:
    """Away from every checkout."""
    line = "import sys; from asr_ablations.commands.console import main; sys.exit(main())"
    words = ["-cd", "sweeps", "-cn", "rnn_type", "rnn=gru", "seed=0", *SHRUNKEN, "max_epochs=1", "logger=csv"]
    environment = clean_environment(corpora, tmp_path, PYTHONPATH=str(installed))
    command = [sys.executable, "-c", line, "train", *last_of_each(words)]
    done = expect(0, subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True))
    (folder,) = run_folders(tmp_path / "outputs")
    assert "asr_ablations.components.rnn.gru.GRU" in (folder / "config.yaml").read_text()
    assert "factor: rnn" in (folder / "config.yaml").read_text()
    assert f"look at it  asr-ablations compare {folder.relative_to(tmp_path)}\n" in done.stdout
    assert "python src/" not in done.stdout


def test_a_command_is_the_script_of_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = []
    monkeypatch.setattr(runpy, "run_path", lambda path, run_name: started.append((list(sys.argv), path, run_name)))
    monkeypatch.setattr(sys, "argv", ["asr-ablations", "compare", "outputs/a"])
    assert console.main() == 0
    script = str(REPOSITORY / "src" / "compare.py")
    assert started == [([script, "outputs/a"], script, "__main__")]
    monkeypatch.setattr(sys, "argv", ["asr-ablations", "trian"])
    assert console.main() == 2
    assert "train        Train one run" in capsys.readouterr().err


def test_a_reader_that_has_gone_away_sees_no_traceback() -> None:
    """As `--help | head -1` may leave it."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, str(SOURCE / "compare.py"), "--help"]
    with os.fdopen(writing, "w") as gone:
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "shown", "hidden"),
    [
        (["src/transcribe.py", "--help"], ["decoder: attention_rescored, beam", "src/transcribe.py"], "optimizer: "),
        (["src/check.py", "--help"], ["check.py: checks options"], "an ablation: one run per"),
        (["src/benchmark.py", "--help"], group_options("benchmark"), "there is no such"),
    ],
)
def test_help_has_what_the_command_reads(words: list[str], shown: list[str], hidden: str, tmp_path: Path) -> None:
    done = expect(0, python(words, clean_environment(tmp_path, tmp_path)))
    head = done.stdout.partition("benchmark: ")[0]  # the list of groups has their options
    assert [one for one in shown if one not in head] == []
    assert hidden not in done.stdout
    names = [line.split("=")[0] for line in done.stdout.splitlines() if re.match(r"[\w.]+=", line)]
    assert len(names) == len(set(names))


HEAVY = {
    "torch", "torchaudio", "torchmetrics", "pytorch_lightning", "lightning_fabric", "wandb", "matplotlib", "plotly",
    "pandas", "scipy", "numpy", "sklearn", "sympy", "optuna", "sqlalchemy", "soundfile", "onnx", "jax",
}  # fmt: skip
"""What takes a tenth of a second or more to import, or brings along what does."""

PROGRAM = """
import atexit, runpy, sys
atexit.register(lambda: print("\\nmodules", *sorted({name.partition(".")[0] for name in sys.modules})))
sys.argv = sys.argv[1:]
sys.path.insert(0, %r)
runpy.run_path(sys.argv[0], run_name="__main__")
""" % str(SOURCE)  # noqa: UP031  # braces of the program would have to be doubled


def interpret(program: str, *arguments: object, code: int = 0, **variables: str) -> str:
    """What a fresh interpreter prints that runs the program and ends with this exit code."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("COV", "HYDRA"))}
    words = [sys.executable, "-c", program, *last_of_each([*map(str, arguments)])]
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


def test_the_help_of_no_command_imports_what_is_heavy() -> None:
    """One interpreter prints them all, one after the other."""
    program = """
import atexit, contextlib, runpy, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    sys.argv = [f"{name}.py", "--help"]
    with contextlib.suppress(SystemExit):
        runpy.run_path(f"{sys.path[0]}/{name}.py", run_name="__main__")
print("\\nmodules", *sorted({name.partition(".")[0] for name in sys.modules}))
"""
    names = [path.stem for path in SOURCE.glob("*.py")]
    assert len(names) > 15
    assert modules(program, SOURCE, *names) & HEAVY == set()


def test_a_wrong_value_is_reported_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    assert modules(PROGRAM, SOURCE / "train.py", "seed=x", f"outputs={tmp_path}", code=2) & HEAVY == set()


def test_what_is_done_already_is_said_without_torch(corpora: Path, tmp_path: Path) -> None:
    """The data are read, for their content is a part of what a run is: that takes numpy and soundfile."""
    words = [SOURCE / "train.py", "rnn=gru", *SHRUNKEN, "max_epochs=1", "logger=csv", f"outputs={tmp_path}"]
    expect(0, python(words, clean_environment(corpora, tmp_path)))
    (folder,) = run_folders(tmp_path)
    before = (folder / "status.json").read_bytes()
    printed = interpret(PROGRAM, *words, ASR_ABLATIONS_DATA=str(corpora))
    *lines, last = printed.splitlines()
    assert "done already" in "\n".join(lines)
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
