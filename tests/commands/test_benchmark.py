"""python src/benchmark.py, in miniature."""

import json
import shutil
import signal
import subprocess
import time

import pytest

from asr_ablations.tools.files import REPOSITORY
from tests.helpers.command import SHRUNKEN, clean_environment, documented_commands, run, run_folders
from tests.helpers.interpreter import expect, python, start


def documented(benchmark):
    """The words of the documented command for it."""
    (line,) = [line for line in documented_commands() if f"benchmark={benchmark}" in line.split()]
    return line.split()


def measured(corpora, outputs, benchmark, *options):
    """The finished process of the documented command, shrunken, its only run's folder, and the result in it."""
    done = run([*documented(benchmark), *SHRUNKEN, *options], corpora, outputs)
    assert "Warning" not in done.stderr
    assert "GPU available" not in done.stdout + done.stderr, "Lightning's start lines"
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(outputs)
    return done, folder, json.loads((folder / "result.json").read_text())


def refused(corpora, outputs, *options):
    """The one line with which it ends."""
    done = expect(2, run(["src/benchmark.py", *options], corpora, outputs))
    (line,) = done.stderr.splitlines()
    return line


def test_loop_compares_lightning_with_a_bare_loop(corpora, tmp_path):
    options = ["benchmark.steps=3", "benchmark.pairs=1"]
    done, _, result = measured(corpora, tmp_path, "loop", *options)
    assert result["ratio"] == pytest.approx(result["lightning_seconds"] / result["bare_seconds"])
    assert "ratio" in done.stdout


@pytest.mark.slow
def test_gpu_measures_what_it_can_and_says_what_falls_short(corpora, tmp_path):
    options = ["gpus=0", "benchmark.parts.step.batches=[4]", "benchmark.parts.step.precisions=[32]"]
    options += [f"benchmark.parts.step.{key}=1" for key in ("steps", "repeats")]
    options += ["benchmark.parts.loop.steps=2", "benchmark.parts.loop.pairs=1", "benchmark.parts.input.workers=[1]"]
    options += ["benchmark.parts.input.batches=2", "benchmark.parts.input.repeats=1"]
    options += [f"benchmark.parts.sharing.{word}" for word in ("side_by_side=[1]", "seconds=0.1", "repeats=1")]
    options += ["benchmark.goals.loop_ratio=1e-9", "benchmark.goals.port_ratio=1e-9"]
    options += [f"model.convolutions.{number}.channels=2" for number in range(2)]  # of 32
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


def test_utilisation_compares_steps_with_and_without_the_record(corpora, tmp_path):
    options = ["benchmark.steps=2", "benchmark.pairs=6", "benchmark.interval=0.02"]
    _, _, result = measured(corpora, tmp_path, "utilisation", *options)
    for clock in ("seconds", "cpu"):
        assert 0 < result[f"{clock}_ratio_low"] <= result[f"{clock}_ratio"] <= result[f"{clock}_ratio_high"]
    assert result["interval"] == 0.02


def test_decode_measures_each_decoder_and_width_on_both_models(corpora, tmp_path):
    options = ["benchmark.utterances=1", "benchmark.beam_widths=[2,3]", "benchmark.repeats=2"]
    _, _, result = measured(corpora, tmp_path, "decode", *options)
    beams = [(name, width) for name in ("beam", "beam_lm", "beam_charlm", "lexicon") for width in (2, 3)]
    cases = [(name, width, model) for name, width in (("greedy", None), *beams) for model in ("sure", "unsure")]
    assert [(row["decoder"], row["beam_width"], row["model"]) for row in result["decoding"]] == cases
    assert all(row["utterances_per_second"] > 0 <= row["spread %"] for row in result["decoding"])


@pytest.mark.parametrize(("key", "value"), [("pairs", 5), ("steps", 0), ("interval", 0)])
def test_a_wrong_value_of_it_is_one_line(key, value, corpora, tmp_path):
    assert f"benchmark.{key}={value}: expected" in refused(
        corpora, tmp_path, "benchmark=utilisation", f"benchmark.{key}={value}", *SHRUNKEN
    )


def test_input_compares_caches_workers_and_the_model(corpora, tmp_path):
    options = ["benchmark.batches=3", "benchmark.repeats=1", "benchmark.workers=[0,1]"]
    done, _, result = measured(corpora, tmp_path, "input", *options)
    rows = result["rows"]
    assert [(r["cache"], r["workers"]) for r in rows] == [(c, w) for c in ("none", "pcm", "features") for w in (0, 1)]
    for row in rows:
        assert row["over_model"] == pytest.approx(
            row["audio_hours_per_second"] / result["model_audio_hours_per_second"]
        )
        assert row["times_real_time_per_core"] == pytest.approx(3600 * row["audio_hours_per_second"])
    assert all(word in done.stdout for word in ("pcm", "features", "real time", "result in"))


def test_a_wrong_number_of_workers_is_one_line(corpora, tmp_path):
    done = expect(2, run(["src/benchmark.py", "benchmark=input", "benchmark.workers=[0,-1]"], corpora, tmp_path))
    assert done.stderr == "error: benchmark.workers=[0, -1]: expected whole numbers, 0 or more\n"


@pytest.mark.slow
def test_launch_compares_three_ways_to_start_an_arm(corpora, tmp_path):
    _, _, result = measured(corpora, tmp_path, "launch", "benchmark.arms=2", "benchmark.repeats=1", "max_epochs=1")
    for way in ("forked", "processes", "in_one_process"):
        assert 0 < min(result[f"{way}_median"], result[f"{way}_first"]) < result[f"{way}_all"]
    assert result["processes_to_forked"] == pytest.approx(result["processes_median"] / result["forked_median"])


def test_step_prints_a_row_for_each_layer_and_batch(corpora, tmp_path):
    options = ["benchmark.batches=[2,4]", "benchmark.steps=1"]
    few = ["benchmark.repeats=1", "benchmark.frames=[8,16]"]
    _, _, result = measured(corpora, tmp_path, "step", *options, *few)
    points = [("lstm", 32, 2), ("lstm", 32, 4), ("gru", 32, 2), ("gru", 32, 4)]
    assert [(row["rnn"], row["precision"], row["batch"]) for row in result["steps"]] == points
    for row in result["steps"]:
        assert row["R"] > 0
        assert row["MFU %"] == pytest.approx(100 * row["GFLOP/s"] / row["product GFLOP/s"])
        assert row["port / ours"] > 0
        assert row["CPU ms"] > 0
        assert (row["native"] == "none") == (row["torch CPU ms"] is None)
    for row in result["parts"]:  # 8 frames more are within the noise of a clock: a rate is known or not
        assert (row["rnn GFLOP/s"] is not None) == (row["tau us"] > 0)
    assert all(row[f"{kind} %"] > 0 for row in result["parts"] for kind in ("conv", "rnn", "norm", "ctc"))


def test_step_measures_precisions_side_by_side(corpora, tmp_path):
    options = ["benchmark=step", "benchmark.precisions=[32,bf16]", "benchmark.steps=1", "benchmark.repeats=1"]
    more = ["benchmark.frames=[8,16]", "threads=1", *SHRUNKEN]
    expect(0, run(["src/benchmark.py", *options, *more], corpora, tmp_path))
    (folder,) = run_folders(tmp_path)
    result = json.loads((folder / "result.json").read_text())
    assert result["machine"]["threads"] == 1
    rows = result["steps"]
    points = [("lstm", 32), ("lstm", "bf16"), ("gru", 32), ("gru", "bf16")]
    assert [(row["rnn"], row["precision"]) for row in rows] == points
    assert all(row["port / ours"] > 0 for row in rows)


def test_sharing_adds_up_what_trainings_side_by_side_train(corpora, tmp_path):
    options = ["benchmark.side_by_side=[1,2]", "benchmark.seconds=0.5", "benchmark.repeats=1", "threads=1"]
    _, folder, result = measured(corpora, tmp_path, "sharing", *options)
    one, two = result["sharing"]
    assert (one["side by side"], one["gain"]) == (1, 1.0)
    assert two["each"] * 2 == pytest.approx(two["R"])
    assert two["gain"] == pytest.approx(two["R"] / one["R"])
    assert 0.1 < two["memory GB"] < 4
    assert "side by side" in (folder / "report.md").read_text()


def test_a_wrong_number_of_trainings_side_by_side_is_one_line(corpora, tmp_path):
    assert "benchmark.side_by_side=[0]: expected whole numbers, 1 or more" in refused(
        corpora, tmp_path, "benchmark=sharing", "benchmark.side_by_side=[0]", *SHRUNKEN
    )


def test_a_wrong_grid_of_steps_is_one_line(corpora, tmp_path):
    assert "benchmark.batches=[0]: expected" in refused(
        corpora, tmp_path, "benchmark=step", "benchmark.batches=[0]", *SHRUNKEN
    )


def test_peer_goes_from_the_usual_port_to_ours_lever_by_lever(corpora, tmp_path):
    options = ["benchmark.batches=2", "benchmark.repeats=1", "benchmark.warmup=0"]
    _, folder, result = measured(corpora, tmp_path, "peer", *options, "batch.size=4")
    assert [row["way"] for row in result["ways"]] == ["usual port", "+ our batches", "+ our input", "+ our layers"]
    assert result["utterances"] == 8
    gained = 1.0
    for row in result["ways"]:
        gained *= row["gain"]
        assert row["ratio"] == pytest.approx(gained)
        assert row["ms per batch"] * row["R"] == pytest.approx(
            result["ways"][0]["ms per batch"] * result["ways"][0]["R"]
        )
    assert result["ours / port"] == pytest.approx(result["ways"][-1]["R"] / result["ways"][0]["R"])
    assert result["ways"][1]["padding %"] <= result["ways"][0]["padding %"]
    assert "our layers" in (folder / "report.md").read_text()


def test_peer_wants_a_model_that_the_port_has(corpora, tmp_path):
    done = expect(2, run(["src/benchmark.py", "benchmark=peer", *SHRUNKEN, "norm=layer"], corpora, tmp_path))
    assert done.stderr.splitlines()[-1].startswith("error: benchmark=peer: the usual port lacks this model")


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
    assert len(run_folders(tmp_path)) == 2
    compare = ["src/compare.py", str(run_folders(tmp_path)[0].parent)]
    shown = expect(0, python(compare, clean_environment(corpora, tmp_path)))
    for output in (done.stdout, shown.stdout):
        assert "value rnn=gru" in output
        assert "comparison/report.md" in output


@pytest.mark.slow
def test_scaling_trains_one_rank_and_two(corpora, tmp_path):
    options = ["gpus=0", "benchmark.ranks=[1,2]", "benchmark.steps=2", "benchmark.warmup=1"]
    _, folder, result = measured(corpora, tmp_path, "scaling", *options, "benchmark.repeats=1")
    rows = {(row["scaling"], row["ranks"]): row for row in result["scaling"]}
    assert [row["total batch"] for row in rows.values()] == [8, 16, 8, 8]
    for (kind, ranks), row in rows.items():
        assert row["ms per step"] > 0
        assert row["utterances per step"] <= row["total batch"]
        assert row["efficiency %"] == pytest.approx(100 * row["R"] / rows[kind, 1]["R"] / ranks)
    assert "published" in result
    assert (folder / "efficiency-by-ranks.png").exists()


@pytest.mark.parametrize(
    ("benchmark", "key", "value"), [("scaling", "total", 3), ("platform", "minutes", 0), ("platform", "repeats", 0)]
)
def test_a_wrong_value_of_a_training_is_one_line(benchmark, key, value, corpora, tmp_path):
    options = [f"benchmark={benchmark}", "ranks=2", f"benchmark.{key}={value}", *SHRUNKEN]
    assert f"benchmark.{key}={value}: expected" in refused(corpora, tmp_path, *options)


@pytest.mark.slow
def test_two_machines_platforms_stand_side_by_side(corpora, tmp_path):
    few = ["benchmark.beam_widths=[1,4]", "benchmark.utterances=3", "benchmark.targets.wer=[9.0,0.0]"]
    few += ["model.convolutions.0.channels=8", "decoder.beam_width=2"]  # of 600, and of 100
    epochs = ["benchmark.minutes=null", "max_epochs=3", "hardware.price_per_hour=3.6", "benchmark.price.total=900"]
    # the time is up in the first epoch, which is then the last, of every rank
    two_ranks = ["gpus=0", "ranks=2", "benchmark.minutes=0.001", "max_epochs=1000"]
    results = {
        "mine": platform_result(corpora, tmp_path / "1", [*few, *epochs]),
        "theirs": platform_result(corpora, tmp_path / "2", [*few, *two_ranks]),
    }
    assert [result["epochs"] for result in results.values()] == [3, 1]
    mine, theirs = ({row["target %"]: row for row in result["time_to_accuracy"]} for result in results.values())
    assert 0 < mine["900"]["minutes"] <= results["mine"]["minutes of training"]
    assert mine["900"]["cost"] == pytest.approx(3.6 / 60 * mine["900"]["minutes"])
    assert any("first of 2 ranks" in line for line in results["theirs"]["notes"])
    assert [mine["0"]["minutes"], theirs["900"]["minutes"]] == [None, None]
    for name, result in results.items():
        assert [row["beam width"] for row in result["evaluation_by_beam_width"]] == [1, 4]
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    machines = [tmp_path / "mine.json", tmp_path / "theirs.json"]
    expect(0, python(["src/compare.py", *machines], clean_environment(corpora, tmp_path)))
    comparison = json.loads((tmp_path / "comparison" / "comparison.json").read_text())
    steps = comparison["throughput"][0]
    assert steps["R theirs, % of mine"] == pytest.approx(100 * steps["R theirs"] / steps["R mine"])
    row = next(row for row in comparison["time_to_accuracy"] if row["target %"] == "900")
    assert (row["minutes mine"], row["minutes theirs"]) == (mine["900"]["minutes"], None)
    assert comparison["published_machines"] == results["mine"]["published_machines"]
    assert {row["machine"] for row in comparison["machines"]} >= {"processor", "memory"}
    series = {plot["title"]: list(plot["series"]) for plot in comparison["plots"]}
    assert series["Throughput"] == ["training (mine)", "training (theirs)"]
    assert (tmp_path / "comparison" / "throughput.png").exists()


def platform_result(corpora, outputs, options):
    """result.json of a run whose training lies in its own folder, and nowhere else."""
    expect(0, run([*documented("platform"), *SHRUNKEN, *options], corpora, outputs))
    folder, training = sorted(run_folders(outputs), key=lambda path: len(path.parts))
    assert training.parent == folder / "training"
    assert json.loads((training / "status.json").read_text())["status"] == "done"
    return json.loads((folder / "result.json").read_text())


NETWORKS = ["benchmark.shrink=64", "benchmark.steps=2", "benchmark.warmup=1"]


def test_networks_are_measured_by_framework_threads_and_samples(corpora, tmp_path):
    options = ["benchmark.only=[fcn5,torch]", "benchmark.threads=[1,2]", "benchmark.batches=[1]", "gpus=0"]
    _, folder, result = measured(corpora, tmp_path, "networks", *NETWORKS, *options, "benchmark.together=2")
    (size,) = result["sizes"]
    assert size["parameters"] == sum(a * b + b for a, b in [(418, 15), (15, 15), (15, 15), (15, 418)])
    points = [(row["framework"], row["threads"], row["batch"]) for row in result["steps"]]
    assert points == [("torch", 1, 64), ("torch", 2, 64)], result["notes"]
    for row in result["steps"]:
        assert row["samples/s"] == pytest.approx(1000 * row["batch"] / row["ms"])
        assert row["GFLOP/s"] == pytest.approx(row["samples/s"] * size["GFLOP per sample"])
    single, double = (row["ms"] for row in result["steps"])
    ours, *theirs = result["scaling"]
    assert (ours["machine"], ours["1 to 2 threads"]) == ("this machine", pytest.approx(single / double))
    assert [row["framework"] for row in theirs[::2]] == ["Caffe", "CNTK", "TF", "Torch"]
    assert "desktop, published" in (folder / "report.md").read_text()
    assert (folder / "fcn5-by-threads.png").exists()


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("only", "[caffe]", "=caffe: expected fcn5, fcn8, alexnet, resnet50, lstm32, lstm64, torch, jax"),
        ("threads", "[0]", "=[0]: expected whole numbers, 1 or more"),
        ("shrink", "0", "=0: expected a whole number, 1 or more"),
    ],
)
def test_a_wrong_value_of_networks_is_one_line(key, value, expected, corpora, tmp_path):
    assert f"benchmark.{key}{expected}" in refused(
        corpora, tmp_path, "benchmark=networks", *NETWORKS, f"benchmark.{key}={value}"
    )


def test_lstm_compares_implementations_with_equal_numbers(corpora, tmp_path):
    few = ["benchmark.steps=3", "benchmark.warmup=1", "benchmark.scale=0.04", "benchmark.threads=1"]
    chosen = ["benchmark.configurations=[deep_ctc_long]", "benchmark.only=[torch_lstm,torch_packed,project]"]
    _, folder, result = measured(corpora, tmp_path, "lstm", *few, *chosen)
    rows, numbers = result["steps"], result["numbers_and_memory"]
    assert [row["implementation"] for row in rows] == ["torch_packed", "project"]
    slowest = max(row["ms"] for row in rows)
    for row in rows:
        assert row["x slowest"] == pytest.approx(slowest / row["ms"])
        assert row["measurements"] == 3
    assert all(max(row["logits differ"], row["loss differs"]) < 1e-4 < row["peak GB"] for row in numbers)
    assert any(line.startswith("4x320/CTC-long: torch_lstm not measured") for line in result["notes"])
    assert (folder / "training-step-of-lstm-networks.png").is_file()
    _stand_beside_another_version(folder, result, tmp_path)


def _stand_beside_another_version(folder, result, tmp_path):
    """The result as another version of PyTorch would have measured it, in twice the time, in a checkout of its own."""
    other, torch = tmp_path / "other" / folder.name, result["machine"]["torch"]
    shutil.copytree(folder, other)
    slower = [{**row, "ms": 2 * row["ms"]} for row in result["steps"]]
    changed = {**result, "steps": slower, "machine": {**result["machine"], "torch": "0.2.0"}}
    (other / "result.json").write_text(json.dumps(changed))
    expect(
        0,
        python(
            ["src/compare.py", folder, other, "--out", tmp_path / "compared"], clean_environment(tmp_path, tmp_path)
        ),
    )
    compared = json.loads((tmp_path / "compared" / "comparison.json").read_text())
    for row, before in zip(compared["steps"], result["steps"], strict=True):
        assert row["implementation"] == before["implementation"]
        assert row[f"ms torch {torch}"] == before["ms"]
        assert row[f"ms torch 0.2.0, % of torch {torch}"] == pytest.approx(200)
    (versions,) = [row for row in compared["machines"] if row["machine"] == "torch"]
    assert versions == {"machine": "torch", f"torch {torch}": torch, "torch 0.2.0": "0.2.0"}


def test_a_wrong_implementation_is_one_line(corpora, tmp_path):
    assert "benchmark.only=['theano']: expected null for all, or a list of some: torch_basic, torch_fused" in refused(
        corpora, tmp_path, "benchmark=lstm", "benchmark.only=[theano]"
    )


TOOLKIT = {
    **{"utterances": 4, "frames": 40, "chunk": 20, "labels": 9, "width": 4, "batch": 2, "epochs": 2, "every": "[null]"},
    **{"workers": "[1,2]", "worker_epochs": 1},
}


@pytest.mark.slow
def test_toolkit_compares_engines_and_workers_with_the_paper(corpora, tmp_path):
    options = [f"benchmark.{key}={value}" for key, value in TOOLKIT.items()]
    _, folder, result = measured(corpora, tmp_path, "toolkit", *options)
    *ours, _, _, _, _ = result["toolkits"]
    assert [row["toolkit"] for row in ours[:3]] == ["project_loop", "minimal", "plain_loop"]
    assert [row["published s"] for row in result["toolkits"][-4:]] == [140, 370, 580, 210]
    for row, learning in zip(ours, result["learning"], strict=True):
        assert learning["frames per epoch"] == 3 * 40
        assert row["frames/s"] == pytest.approx(3 * 40 / row["s per epoch"])
        assert row["s for 8738 utterances"] == pytest.approx(row["s per epoch"] * 8738 / 4)
        assert row["peak GB"] > 0.1
    single, double = result["workers"]
    assert (single["workers"], double["workers"]) == (1, 2)
    assert double["speed-up"] == pytest.approx(single["s per epoch"] / double["s per epoch"])
    assert double["published speed-up"] == pytest.approx(140 / 80)
    (plot,) = result["plots"]
    assert {name: len(points) for name, points in plot["series"].items()} == {"1 worker": 2, "2 workers": 2}
    assert (folder / "frame-error-rate-over-time.png").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("frames=45", "benchmark.frames=45: expected a multiple of benchmark.chunk=20"),
        ("workers=[0]", "benchmark.workers=[0]: expected whole numbers"),
        ("every=[0]", "benchmark.every=[0]: expected a list of whole numbers"),
        ("lr=0", "benchmark.lr=0: expected a number above 0"),
    ],
)
def test_a_wrong_toolkit_is_one_line(override, message, corpora, tmp_path):
    options = [f"benchmark.{key}={value}" for key, value in TOOLKIT.items()]
    assert message in refused(corpora, tmp_path, "benchmark=toolkit", *options, f"benchmark.{override}")


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
