"""The benchmarks of a platform and of scaling over GPUs."""

import csv
from dataclasses import replace

import pytest

from asr_ablations.runs.layout import UTILISATION
from asr_ablations.runs.metrics_files import COLUMNS
from asr_ablations.runs.records import read_run
from asr_ablations.tools.machine import cores
from asr_benchmarks.platform import tables as platform_tables
from asr_benchmarks.platform.platform import platform
from asr_benchmarks.scaling.scaling import Point, build_row, choose_counts, scaling
from asr_verdicts.errors import UsageError
from tests.helpers.run_folders import write_run
from tests.helpers.support import compose


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("targets", {"ser": [0.1]}, r"targets=ser: expected wer, cer, cer_longer"),
        ("beam_widths", [2, 2], r"beam_widths=\[2, 2\]: expected different whole numbers"),
        ("price", {"chassis": 1}, r"price=chassis: expected total, gpus, cpus"),
    ],
)
def test_a_wrong_value_is_one_line(option, value, message):
    options = {
        "minutes": 1.0, "targets": {"wer": [0.2], "cer": []}, "beam_widths": [2], "utterances": 1, "repeats": 1,
        "decoder": None, "price": {"total": None}, option: value,
    }  # fmt: skip
    with pytest.raises(UsageError, match=rf"benchmark\.{message}"):
        platform(compose(), **options)


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


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("ranks", [2, 4], "including 1"),
        ("total", 3, r"a multiple of each number of ranks, 1, 2"),
        ("warmup", 0, "1 or more, because the first step"),
    ],
)  # fmt: skip
def test_scaling_a_wrong_value_is_one_line(option, value, message):
    keys = {"ranks": [1, 2], "batch": 4, "total": 4, "steps": 1, "warmup": 1, "repeats": 1, "threads": 1}
    with pytest.raises(UsageError, match=rf"benchmark\.{option}=.*: expected .*{message}"):
        scaling(compose("gpus=0"), **{**keys, option: value})


def test_ranks_double_up_to_what_there_is():
    assert choose_counts(compose("gpus=0", "ranks=5"), None, gpus=0) == [1, 2, 4]
    assert choose_counts(compose(), None, gpus=8) == [1, 2, 4, 8]
    assert choose_counts(compose("gpus=0"), None, gpus=0)[-1] <= cores()
    with pytest.raises(UsageError, match="at most the 2 GPUs"):
        choose_counts(compose(), [1, 4], gpus=2)


def test_efficiency_is_the_rate_over_so_many_times_that_of_one_rank():
    measured = [
        [(0.2, 1.0, 4.0, 2**20), (0.1, 2.0, 4.0, 2**20), (0.3, 3.0, 4.0, 2**20)], [(0.25, 3.0, 7.5, 2**21)]
    ]  # fmt: skip
    single, double = (
        Point(
            ranks,
            4,
            "",
            {"threads": 1},
            [dict(zip(("seconds", "R", "utterances", "peak"), row, strict=True)) for row in rows],
            None,
        )
        for ranks, rows in enumerate(measured, start=1)
    )
    row = build_row("weak", double, single)
    sizes = {"scaling": "weak", "ranks": 2, "batch per rank": 4, "total batch": 8}
    rates = {"ms per step": 250.0, "R": 3.0, "efficiency %": 75.0, "utterances per step": 7.5}
    assert row == {**sizes, **rates, "peak MiB per rank": 2.0}
    assert build_row("weak", single, single)["efficiency %"] == 100.0
