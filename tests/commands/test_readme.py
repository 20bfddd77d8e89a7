"""Every command of the README works, on a shrunken corpus."""

import re
import shlex
import subprocess

import pytest
from command import REPOSITORY, SHRUNKEN, clean_environment, run, run_folders

from support import shared_data

BLOCKS = re.findall(r"```bash\n(.*?)```", (REPOSITORY / "README.md").read_text(), flags=re.DOTALL)
LINES = [line.split("  #")[0].split(" # ")[0].strip() for block in BLOCKS for line in block.splitlines()]
PYTHON = [line.removeprefix("python ") for line in LINES if line.startswith("python ")]
OTHER = [line for line in LINES if line and not line.startswith("python ")]
SEARCH = "src/train.py -m -cd sweeps -cn hyperparameters"
OWN_TESTS = (
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
    if "benchmark=decode" in words:
        extra += ["benchmark.utterances=1", "benchmark.beam_widths=[2]"]
    if "benchmark=peer" in words:
        extra += ["benchmark.batches=1", "benchmark.repeats=1", "benchmark.warmup=0"]
    if "benchmark=loop" in words:
        extra += ["benchmark.steps=2", "benchmark.pairs=1"]
    if "benchmark=step" in words:
        extra += ["benchmark.steps=1", "benchmark.repeats=1", "benchmark.frames=[8,16]"]
    if "benchmark=utilisation" in words:
        extra += ["benchmark.steps=2", "benchmark.pairs=6"]
    if "benchmark=launch" in words:
        extra.append("benchmark.arms=2")
    if "benchmark=lstm" in words:
        extra += ["benchmark.scale=0.02", "benchmark.steps=1", "benchmark.warmup=0", "benchmark.only=[torch_fused]"]
        extra.append("benchmark.configurations=[ce_short]")
    if "benchmark=toolkit" in words:
        sizes = {"utterances": 4, "frames": 40, "chunk": 20, "labels": 9, "width": 4, "batch": 4, "epochs": 1}
        extra += [f"benchmark.{key}={value}" for key, value in {**sizes, "workers": "[1]", "worker_epochs": 1}.items()]
    if "benchmark=input" in words:
        extra += ["benchmark.batches=2", "benchmark.repeats=1", "benchmark.workers=[0,1]"]
    if "benchmark=scaling" in words:
        extra += ["benchmark.ranks=[1,2]", "benchmark.steps=1", "benchmark.warmup=1", "benchmark.repeats=1"]
    if "benchmark=platform" in words:
        extra += ["benchmark.minutes=null", "benchmark.beam_widths=[2]", "benchmark.utterances=1"]
    if "benchmark=networks" in words:
        extra += ["benchmark.only=[fcn5,lstm32,torch,jax]", "benchmark.shrink=64", "benchmark.threads=[1,2]"]
        extra += ["benchmark.batches=[1]", "benchmark.steps=2", "benchmark.warmup=1"]
    return [*words, *extra]


def test_the_readme_shows_each_entry_script():
    shown = " ".join(PYTHON)
    assert all(f"src/{script.name}" in shown for script in (REPOSITORY / "src").glob("*.py"))


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
