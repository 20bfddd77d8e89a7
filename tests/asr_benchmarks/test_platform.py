"""The benchmarks of a platform and of scaling over GPUs."""

import csv
import math
from dataclasses import replace

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir

from asr_ablations.runs.layout import UTILISATION
from asr_ablations.runs.metrics_files import COLUMNS
from asr_ablations.runs.records import read_run
from asr_ablations.tools.machine import cores
from asr_benchmarks.platform import tables as platform_tables
from asr_benchmarks.platform.platform import RELATIVE, platform, read_published_tables
from asr_benchmarks.scaling import scaling as scaling_module
from asr_benchmarks.scaling.scaling import (
    Point,
    build_row,
    choose_counts,
    draw_plots,
    explain_rows,
    list_published,
    scaling,
)
from asr_benchmarks.tables import Result, join_plots, join_tables
from asr_benchmarks.timing import Timing
from asr_benchmarks.worker import WorkerError
from asr_verdicts.errors import UsageError
from tests.helpers.run_folders import write_run
from tests.helpers.support import CONF, compose

OPTIONS = {
    "minutes": 1.0, "targets": {"wer": [0.2], "cer": []}, "beam_widths": [2], "utterances": 1, "repeats": 1,
    "decoder": None, "price": {"total": None},
}  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("minutes", 0, r"minutes=0: expected a number above 0, or null"),
        ("targets", {"ser": [0.1]}, r"targets=ser: expected wer, cer, cer_longer"),
        ("targets", {"wer": ["low"]}, r"targets\.wer=.*: expected rates"),
        ("beam_widths", [2, 2], r"beam_widths=\[2, 2\]: expected different whole numbers"),
        ("price", {"chassis": 1}, r"price=chassis: expected total, gpus, cpus"),
        ("price", {"total": "cheap"}, r"price\.total=cheap: expected a number"),
    ],
)
def test_a_wrong_value_is_one_line(option, value, message):
    with pytest.raises(UsageError, match=rf"benchmark\.{message}"):
        platform(compose(), **{**OPTIONS, option: value})


def test_it_trains_the_papers_model_unless_another_is_chosen():
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        own, other = (
            hydra_compose("benchmarks", overrides=["overrides=[]", "benchmark=platform", *more])
            for more in ([], ["model=tiny", "optimizer=adamw", "max_epochs=3", "decoder=greedy", "data=an4"])
        )
    assert (own.width, own.layers, own.features._target_.split(".")[-1]) == (800, 5, "LogMelMFCC")
    # §4.4.3: 30 labels; §4.3: at most 16.7 s; table 2: 24 on each GPU of Sys1$; §4.4.2: a beam of 256 in validation
    assert (own.alphabet.separation, own.gradient.limit, own.batch.size) == ("_", None, 24)
    assert (own.data.max_seconds, own.data.max_evaluated_seconds, own.decoder.beam_width) == (16.7, 16.7, 256)
    assert own.optimizer._target_ == "torch.optim.Adadelta"
    assert list(other.decoder) == ["_target_", "_partial_"]
    assert (other.width, other.max_epochs, other.optimizer._target_) == (192, 3, "torch.optim.AdamW")


@pytest.fixture
def run(tmp_path):
    """Four epochs of 10 s: WER 60, 30, 20, 10 %, CER a third of it; a sample a second, 100 W."""
    folder = write_run(tmp_path, "hardware.price_per_hour=3.6", curve=[0.6, 0.3, 0.2, 0.1])
    rows = [
        {"seconds": s, "phase": "validate" if s % 10 == 0 else "train", "cpu_percent": 0 if s % 10 == 0 else 50,
         "host_memory_gib": 2, "gpu_percent": 80, "gpu_power_watts": 100, "audio_hours": 0.05 * s,
         "gpu_percents": "70 90"}
        for s in range(1, 41)
    ]  # fmt: skip
    with (folder / UTILISATION).open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)
    record = read_run(folder)
    summary = {"audio_hours_seen": 2.0, "audio_hours_per_second": 0.0625, "train_hours": 0.5, "train_utterances": 360}
    phases = {"phase_seconds": {"train": 32.0, "validate": 8.0}, "seconds": {"train": 40.0, "evaluate": 1.0}}
    whole = summary | phases | {"peak_memory_bytes": 2**30, "parameters": 7, "epochs": 4}
    return replace(record, summary=replace(record.summary, **whole))


def test_throughput_is_that_of_the_steps_and_of_everything(run):
    steps, everything = platform_tables.list_throughput(run)
    assert steps == {"part": "training steps", "R": 0.0625, "times real time": 225.0, "utterances/s": 45.0}
    assert everything == {"part": "with validations", "R": 0.05, "times real time": 180.0, "utterances/s": 36.0}


def test_utilisation_phases_and_energy(run):
    cpu, memory, gpu, gpu_memory, power = platform_tables.list_utilisation(run)
    assert cpu == {"mean": "CPU %", "training steps": 50.0, "whole run": 45.0}
    assert (memory["whole run"], gpu["whole run"], gpu_memory["whole run"], power["whole run"]) == (2, 80, None, 100)
    assert [row["share %"] for row in platform_tables.list_phases(run)] == [80.0, 20.0]
    # from the first sample to the last
    assert platform_tables.list_figures(run)["GPU kWh"] == pytest.approx(39 * 100 / 3.6e6)


def test_time_to_accuracy_is_kept_over_three_validations(run):
    kept, missed, characters = platform_tables.list_times_to_accuracy(run, {"wer": [0.3, 0.15], "cer_longer": [0.1]})
    assert kept == {
        "rate": "WER", "target %": "30", "minutes": 0.5, "epochs trained": 3.0, "hours of audio": 1.5,
        "GPU kWh": pytest.approx(29 * 100 / 3.6e6), "cost": pytest.approx(0.03),
    }  # fmt: skip
    assert (missed["target %"], missed["minutes"], missed["cost"]) == ("15", None, None)
    assert (characters["rate"], characters["minutes"]) == ("CER (longer)", 0.5)


def test_prices_as_bought_and_as_rented(run):
    rows = {row["item"]: row["price"] for row in platform_tables.list_prices(run, {"total": 900, "gpus": None})}
    assert (rows["the machine"], rows["its GPUs"], rows["its CPUs"]) == (900.0, None, None)
    assert (rows["an hour of the machine"], rows["this training"]) == (3.6, pytest.approx(0.04))
    assert rows["an hour of audio trained"] == pytest.approx(0.02)


def test_plots_show_25_seconds_of_every_gpu_and_what_was_reached(run):
    throughput = platform_tables.list_throughput(run)
    reached = platform_tables.list_times_to_accuracy(run, {"wer": [0.3]})
    evaluated = [{"beam width": 2, "seconds": 1.0}]
    drawn = {plot["title"]: plot["series"] for plot in platform_tables.draw_plots(run, throughput, reached, evaluated)}
    window = drawn["Utilisation over 25 seconds"]
    assert list(window) == ["CPU", "GPU 0", "GPU 1"]
    assert all(0 <= x <= 25 for x, _ in window["CPU"])
    assert {y for _, y in window["GPU 1"]} == {90.0}
    assert drawn["Time to accuracy"] == {"reached": [("WER 30 %", 0.5)]}
    assert drawn["Rates over time"]["WER"][0] == (pytest.approx(1 / 6), pytest.approx(60))
    assert all(y == pytest.approx(180.0) for _, y in drawn["Throughput over time"]["training"])
    titles = [plot["title"] for plot in platform_tables.draw_plots(run, [], [], [])]
    assert titles == ["Utilisation over 25 seconds", "Throughput over time", "Rates over time"], "nothing reached"


def test_machines_stand_as_columns_with_times_relative_to_the_first():
    def result(minutes):
        reached = [{"rate": "WER", "target %": "22", "minutes": minutes}, {"rate": "CER", "target %": "7",
                                                                           "minutes": None}]  # fmt: skip
        return Result(tables={"time_to_accuracy": reached, **read_published_tables()}, relative=RELATIVE)

    joined = join_tables({"Sys1$": result(1908.0), "Sys2$": result(1251.0), "Sys10$": result(None)})
    row, never = joined["time_to_accuracy"]
    assert [row[f"minutes {name}"] for name in ("Sys1$", "Sys2$", "Sys10$")] == [1908.0, 1251.0, None]
    assert round(row["minutes Sys2$, % of Sys1$"]) == 66
    assert row["minutes Sys10$, % of Sys1$"] is None
    assert never["minutes Sys2$, % of Sys1$"] is None
    assert joined["published_machines"] == read_published_tables()["published_machines"]


def test_published_lines_are_drawn_once():
    plot = {"title": "x", "series": {"weak": [[1, 2.0]], "published, y": [[1, 3.0]]}}
    (joined,) = join_plots({"mine": Result(plots=[plot]), "theirs": Result(plots=[plot])})
    assert list(joined["series"]) == ["weak (mine)", "published, y", "weak (theirs)"]


SCALING_OPTIONS = {"ranks": [1, 2], "batch": 4, "total": 4, "steps": 1, "warmup": 1, "repeats": 1, "threads": 1}


def point(tmp_path, ranks, batch, *answers, failed=None):
    keys = ("seconds", "R", "utterances", "peak")
    measurements = [dict(zip(keys, answer, strict=True)) for answer in answers]
    return Point(ranks, batch, "", {"threads": 1}, measurements, failed)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("ranks", [2, 4], "including 1"), ("ranks", [1, 1], "different whole numbers"),
        ("total", 3, r"a multiple of each number of ranks, 1, 2"),
        ("warmup", 0, "1 or more, because the first step"), ("batch", 0, "1 or more"),
    ],
)  # fmt: skip
def test_scaling_a_wrong_value_is_one_line(option, value, message):
    with pytest.raises(UsageError, match=rf"benchmark\.{option}=.*: expected .*{message}"):
        scaling(compose("gpus=0"), **{**SCALING_OPTIONS, option: value})


def test_ranks_double_up_to_what_there_is():
    assert choose_counts(compose("gpus=0", "ranks=5"), None, gpus=0) == [1, 2, 4]
    assert choose_counts(compose(), None, gpus=8) == [1, 2, 4, 8]
    assert choose_counts(compose("gpus=0"), None, gpus=0)[-1] <= cores()
    with pytest.raises(UsageError, match="at most the 2 GPUs"):
        choose_counts(compose(), [1, 4], gpus=2)


def test_efficiency_is_the_rate_over_so_many_times_that_of_one_rank(tmp_path):
    single = point(tmp_path, 1, 4, (0.2, 1.0, 4.0, 2**20), (0.1, 2.0, 4.0, 2**20), (0.3, 3.0, 4.0, 2**20))
    double = point(tmp_path, 2, 4, (0.25, 3.0, 7.5, 2**21))
    row = build_row("weak", double, single)
    sizes = {"scaling": "weak", "ranks": 2, "batch per rank": 4, "total batch": 8}
    rates = {"ms per step": 250.0, "R": 3.0, "efficiency %": 75.0, "utterances per step": 7.5}
    assert row == {**sizes, **rates, "peak MiB per rank": 2.0}
    assert build_row("weak", single, single)["efficiency %"] == 100.0


def test_a_launch_that_failed_has_no_figures_and_a_note(tmp_path):
    single = point(tmp_path, 1, 4, (0.2, 1.0, 4.0, 2**20))
    broken = point(tmp_path, 2 * cores(), 4, failed="out of memory")
    assert all(build_row("weak", broken, single)[key] is None for key in ("ms per step", "R", "efficiency %"))
    notes = explain_rows(
        [single, broken], {"1 x 4": Timing((0.2,)), "4 x 4": Timing((float("nan"),))}, gpus=0, threads=1
    )
    assert f"{2 * cores()} ranks, batch 4 per rank, failed: out of memory" in notes
    assert any(line.startswith(f"{2 * cores()} ranks of 1 threads share {cores()} cores") for line in notes)


def test_a_launch_that_fails_says_why_and_is_not_tried_again(monkeypatch):
    def fail(*_, **__):
        raise WorkerError("MemoryError: too large")

    monkeypatch.setattr(scaling_module, "Group", fail)
    broken = Point(2, 4, "too large", {"threads": 1})
    assert math.isnan(broken.measure())
    assert broken.failed == "MemoryError: too large"
    monkeypatch.setattr(scaling_module, "Group", None)
    assert math.isnan(broken.measure())


def test_the_published_epochs_are_those_of_the_texts():
    rows = {(row["source (published)"], row["GPUs"]): row for row in list_published()}
    returnn = [rows["Doetsch2016 §6", n] for n in (1, 2, 4)]
    assert [row["epoch, as printed"] for row in returnn] == [140, 80, 41]
    assert [row["efficiency %"] for row in returnn] == pytest.approx([100, 87.5, 85.37], abs=0.01)
    assert [rows["Ambroszczyk2019 table 2.2", n]["epoch, as printed"] for n in (1, 2, 4)] == [119, 56, 36]
    assert all(rows["Ambroszczyk2019 table 2.1", n]["epoch, as printed"] is None for n in (1, 2, 4))
    series = draw_plots([{"scaling": "weak", "ranks": 1, "R": 1.0, "efficiency %": 100.0}])[0]["series"]
    assert list(series) == ["weak", "strong", "published, Doetsch2016 §6", "published, Ambroszczyk2019 table 2.2"]


def test_the_batch_is_the_configs_unless_another_is_chosen():
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = hydra_compose("benchmarks", overrides=["overrides=[]", "benchmark=scaling", "batch.size=6"])
    assert (cfg.benchmark.batch, cfg.benchmark.total) == (6, 6)
