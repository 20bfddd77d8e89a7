"""Every command of the README works, on a shrunken corpus."""

import re
import shlex
import subprocess

import pytest

from tests.helpers.command import (
    REPOSITORY,
    SHRUNKEN,
    clean_environment,
    readme_commands,
    readme_lines,
    run,
    run_folders,
)
from tests.helpers.support import group_options, shared_data

PYTHON = readme_commands()
OTHER = [line for line in readme_lines() if line and not line.startswith("python ")]
SEARCH = "src/train.py -m -cd sweeps -cn hyperparameters"
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
)
"""Commands that tests of their own run, with folders that they need."""
MINI = ["data.train=[train-clean-5]", "data.validation=[dev-clean-2]", "data.test=[test-clean]"]


def arguments(line, manifests):
    """The command's arguments with its placeholders filled in, shrunken."""
    real = {"AN4": "an4", "train-clean-100": "librispeech-mini/LibriSpeech"}
    for placeholder in re.findall(r"<.*?>", line):
        (folder,) = [path for mark, path in real.items() if mark in placeholder]
        line = line.replace(placeholder, str(shared_data(folder)))
    words = shlex.split(line)
    own = {"data=librispeech": MINI, "data=an4": [], "data=manifest": [f"data.root={manifests}"]}
    extra = next((options for data, options in own.items() if data in words), SHRUNKEN[:2])
    extra = [*extra, *SHRUNKEN[2:], "max_epochs=1"]
    if "-cn" in words:
        extra.append("seed=0")
    return [*words, *extra]


def test_the_readme_shows_each_entry_script():
    shown = " ".join(PYTHON)
    assert all(f"src/{script.name}" in shown for script in (REPOSITORY / "src").glob("*.py"))


def test_it_shows_each_benchmark_and_each_has_a_test():
    shown = re.findall(r"benchmark=(\w+)", " ".join(PYTHON))
    assert sorted(shown) == group_options("benchmark")
    tests = (REPOSITORY / "tests/commands/test_benchmark.py").read_text()
    for name in shown:
        assert re.search(rf'(measured\(.*|readme_command\()"{name}"', tests), name


def test_other_commands_are_targets_of_the_makefile():
    makefile = (REPOSITORY / "Makefile").read_text()
    assert OTHER
    for line in OTHER:
        command, target = line.split()[:2]
        assert command == "make"
        assert re.search(rf"^{target}:.*##", makefile, flags=re.MULTILINE), line


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in PYTHON if not line.startswith(OWN_TESTS)])
def test_it_runs(line, manifests, corpora, tmp_path):
    done = run(arguments(line, manifests), corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    assert bool(run_folders(tmp_path)) != ("plan=true" in line)


@pytest.mark.slow
def test_make_train(corpora, tmp_path):
    options = " ".join([*SHRUNKEN, "max_epochs=1", f"outputs={tmp_path}"])
    done = subprocess.run(
        ["make", "train", f"ARGS={options}"],
        cwd=REPOSITORY,
        env=clean_environment(corpora, tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WER" in done.stdout
    assert len(run_folders(tmp_path)) == 1
