"""python src/benchmark.py, in miniature."""

import json
import signal
import subprocess
import time

import pytest

from asr_ablations.tools.files import REPOSITORY
from asr_benchmarks.record import measure
from asr_verdicts.errors import UsageError
from tests.helpers.command import SHRUNKEN, clean_environment, documented_commands, run, run_folders
from tests.helpers.interpreter import expect, start
from tests.helpers.support import composed_by_hydra

pytestmark = pytest.mark.slow
NETWORKS = ["benchmark.shrink=64", "benchmark.steps=2", "benchmark.warmup=1"]
TOOLKIT = {
    **{"utterances": 4, "frames": 40, "chunk": 20, "labels": 9, "width": 4, "batch": 2, "epochs": 2, "every": "[null]"},
    **{"workers": "[1,2]", "worker_epochs": 1},
}
"""Overrides that tests/campaign/frameworks uses, too."""


def measured(corpora, outputs, benchmark, *options):
    """The documented command, shrunken, in this process: its overrides, its folder, and the result in it."""
    (line,) = [line for line in documented_commands() if f"benchmark={benchmark}" in line.split()]
    words = (*line.split()[1:], *SHRUNKEN, *options, f"outputs={outputs}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASR_ABLATIONS_DATA", str(corpora))
        folder = measure(composed_by_hydra(words, "benchmarks"))
    return words, folder, json.loads((folder / "result.json").read_text())


def test_gpu_measures_what_it_can_and_says_what_falls_short(corpora, tmp_path):
    options = ["gpus=0", "benchmark.parts.step.batches=[4]", "benchmark.parts.step.precisions=[32]"]
    options += ["benchmark.parts.step.frames=[8,16]", "benchmark.parts.step.steps=1", "benchmark.parts.step.repeats=1"]
    options += ["benchmark.parts.loop.steps=2", "benchmark.parts.loop.pairs=1", "benchmark.parts.input.workers=[1]"]
    options += ["benchmark.parts.input.batches=2", "benchmark.parts.input.repeats=1"]
    options += [f"benchmark.parts.sharing.{word}" for word in ("side_by_side=[1]", "seconds=0.1", "repeats=1")]
    options += ["benchmark.goals.loop_ratio=1e-9", "benchmark.goals.port_ratio=1e-9"]
    options += [f"model.convolutions.{number}.channels=2" for number in range(2)]  # of 32
    options += ["features=logmel40"]
    _, _, result = measured(corpora, tmp_path, "gpu", *options)
    short, unknown, *others = result["notes"]
    assert short.startswith(f"missed goals: loop_ratio {result['loop_ratio']:.3g}, goal at most 1e-09")
    assert "port_ratio" not in short
    assert unknown == "not measured: waits_per_step, largest_loss_difference, efficiency_percent"
    left_out = [line.partition(": ")[2] for line in others if line.startswith("left out: ")]
    assert "everything ran on the CPU, but the goals are for a GPU" in others
    assert left_out == [
        "tests: needs 1 GPU", "losses: needs 1 GPU", "waits: needs 1 GPU", "scaling: needs 2 GPUs",
    ]  # fmt: skip
    assert result["port_ratio"] == min(row["port / ours"] for row in result["step_steps"])
    assert result["loader_hours_per_second"] > 0


def test_decode_measures_each_decoder_and_width_on_both_models(corpora, tmp_path):
    options = ["benchmark.utterances=1", "benchmark.beam_widths=[2]", "benchmark.repeats=1"]
    _, _, result = measured(corpora, tmp_path, "decode", *options)
    beams = [(name, 2) for name in ("beam", "beam_lm", "beam_charlm", "lexicon")]
    cases = [(name, width, model) for name, width in (("greedy", None), *beams) for model in ("sure", "unsure")]
    assert [(row["decoder"], row["beam_width"], row["model"]) for row in result["decoding"]] == cases
    assert all(row["utterances_per_second"] > 0 <= row["spread %"] for row in result["decoding"])


@pytest.mark.parametrize(
    ("benchmark", "words", "message"),
    [
        ("utilisation", ["benchmark.pairs=5"], r"^benchmark\.pairs=5: expected"),
        ("input", ["benchmark.workers=[0,-1]"], r"^benchmark\.workers=\[0, -1\]: expected whole numbers, 0 or more$"),
        ("sharing", ["benchmark.side_by_side=[0]"], r"^benchmark\.side_by_side=\[0\]: expected whole numbers, 1 or mo"),
        ("step", ["benchmark.batches=[0]"], r"^benchmark\.batches=\[0\]: expected"),
        ("peer", ["norm=layer"], "^benchmark=peer: the usual port lacks this model"),
    ],
)
def test_a_wrong_value_is_one_line(benchmark, words, message, corpora, tmp_path):
    with pytest.raises(UsageError, match=message) as error:
        measured(corpora, tmp_path, benchmark, *words)
    assert "\n" not in str(error.value)


def test_one_that_is_terminated_says_so_and_keeps_what_it_has(corpora, tmp_path):
    many = ["benchmark.batches=[1,2,3,4,5,6]", "benchmark.steps=1", "benchmark.repeats=1", "benchmark.frames=[8,16]"]
    command = ["src/benchmark.py", "benchmark=step", *many, *SHRUNKEN, f"outputs={tmp_path}"]
    with start(command, clean_environment(corpora, tmp_path)) as process:
        while process.poll() is None and not list(tmp_path.glob("*/*/result.json")):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        done = process.finish()
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr.splitlines()[-1:] == ["interrupted: SIGTERM"]
    (folder,) = run_folders(tmp_path)
    status = json.loads((folder / "status.json").read_text())
    assert (status["status"], status["reason"]) == ("failed", "interrupted: SIGTERM")
    assert done.stdout == f"unfinished result in {folder}\n"
    kept = json.loads((folder / "result.json").read_text())
    assert 1 <= len(kept["steps"]) == len(kept["parts"]) < 12
    assert kept["notes"][0].startswith("unfinished")
    assert "unfinished" in (folder / "report.md").read_text()


def test_several_benchmarks_stand_side_by_side(corpora, tmp_path):
    options = ["benchmark=loop", "benchmark.steps=2", "benchmark.pairs=1", "rnn=lstm,gru"]
    done = expect(0, run(["src/benchmark.py", "-m", *options, *SHRUNKEN], corpora, tmp_path))
    assert "Warning" not in done.stderr
    for folder in run_folders(tmp_path):
        result = json.loads((folder / "result.json").read_text())
        assert result["ratio"] == pytest.approx(result["lightning_seconds"] / result["bare_seconds"])
    assert len(run_folders(tmp_path)) == 2
    assert "value rnn=gru" in done.stdout
    assert "comparison/report.md" in done.stdout


def test_the_documented_commands_change_the_versions_of_pytorch_alone(tmp_path):
    """docs/benchmarks.md, "Versions of a framework": without a change a version would be compared with itself."""
    page = (REPOSITORY / "docs/benchmarks.md").read_text(encoding="utf-8")
    commands = [line for line in page.splitlines() if line.startswith("sed -i -E ")]
    assert len(commands) == 2
    names = ("pyproject.toml", "constraints.txt")
    before = {name: (REPOSITORY / name).read_text(encoding="utf-8").splitlines() for name in names}
    for name, lines in before.items():
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    for line in commands:
        subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    after = {name: (tmp_path / name).read_text(encoding="utf-8").splitlines() for name in names}
    required = [line.split('"')[1] for line in after["pyproject.toml"] if line not in before["pyproject.toml"]]
    assert required == ["torch==2.13.*"]
    freed = [line for line in before["constraints.txt"] if line not in after["constraints.txt"]]
    assert "torch==2.11.0" in freed
    assert not [line for line in freed if line.startswith(("torchaudio", "torchmetrics", "nvidia-ml-py"))]
