"""Speed-up, efficiency and price over the processes that train together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.comparison.arms import Arm
from asr_ablations.comparison.comparison import compare
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.training_times import COLUMN, Scaling, device, processes, scaling
from asr_ablations.report.sections import sections
from asr_ablations.runs.record import NO_SUMMARY, Environment, Hardware, RunRecord
from tests.helpers.run_folders import write_run

MINUTES = {1: 119, 2: 56, 4: 36}
"""Ambroszczyk2019 table 2.2."""


def run(minutes: float, *, ranks: int = 1, seed: int = 0, price: float | None = None, **config: Any) -> RunRecord:
    """A record of three epochs, the first of which takes twice as long."""
    seconds = [120 * minutes, 60 * minutes, 60 * minutes]
    whole = {"seed": seed, "gpus": "auto", "ranks": ranks, "batch": {"size": 16, "seconds": None}, **config}
    whole["hardware"] = {"price_per_hour": price}
    return RunRecord(
        Path(f"run-{ranks}-{seed}"), whole, [],
        replace(NO_SUMMARY, ranks=ranks, audio_hours_per_second=960 / 60 / minutes),
        [{COLUMN: value} for value in seconds], environment=Environment(hardware=Hardware(gpus=["V100"] * 4)),
    )  # fmt: skip


def rows_of(*runs: RunRecord) -> list[Scaling]:
    return scaling([Arm(str(number), [each]) for number, each in enumerate(runs)])


def test_the_published_epochs() -> None:
    """119, 56 and 36 minutes are speed-ups of 2.125 and 3.306, efficiencies of 106 % and 83 %."""
    rows = rows_of(*(run(minutes, ranks=count, price=12.24) for count, minutes in MINUTES.items()))
    assert [row.processes for row in rows] == [1, 2, 4]
    assert [row.epoch_seconds / 60 for row in rows] == pytest.approx([119, 56, 36])
    assert [row.speed_up.value for row in rows] == pytest.approx([1, 119 / 56, 119 / 36])
    assert [row.efficiency for row in rows] == pytest.approx([1, 119 / 112, 119 / 144])
    assert [row.price for row in rows] == pytest.approx([12.24 * minutes / 60 for minutes in MINUTES.values()])
    assert {(row.series, row.device, row.batch, row.deviation) for row in rows} == {("", "GPU", "16 utterances", None)}


def test_a_series_for_each_of_what_else_differs() -> None:
    """Ambroszczyk2019 tables 2.1 and 2.2 are of one precision each: their speed-ups are their own."""
    rows = rows_of(
        run(135, precision=32), run(75, ranks=2, precision=32), run(119, precision=16), run(56, ranks=2, precision=16)
    )
    assert [(row.series, row.processes) for row in rows] == [
        ("precision=32", 1), ("precision=32", 2), ("precision=16", 1), ("precision=16", 2),
    ]  # fmt: skip
    assert [row.speed_up.value for row in rows] == pytest.approx([1, 135 / 75, 1, 119 / 56])


def test_seeds_give_a_deviation_and_an_interval() -> None:
    rows = rows_of(
        *(run(m, ranks=r, seed=s) for r, pair in {1: (100, 110), 2: (50, 60)}.items() for s, m in enumerate(pair))
    )
    assert [(row.n, row.deviation) for row in rows] == [(2, pytest.approx(600 / 2**0.5))] * 2
    speed_up = rows[1].speed_up
    assert speed_up.low is not None
    assert speed_up.high is not None
    assert speed_up.low < speed_up.value < speed_up.high


def test_runs_that_differ_in_more_are_no_series() -> None:
    assert rows_of(run(10, rnn="lstm"), run(5, ranks=2, rnn="gru")) == []
    assert rows_of(run(10), run(11, seed=1)) == []


def test_a_batch_that_shrinks_with_the_processes_is_told() -> None:
    """Strong scaling: the runs differ in the batch of a process, too."""
    rows = rows_of(run(10), run(6, ranks=2, batch={"size": 8, "seconds": None}))
    assert [row.batch for row in rows] == ["16 utterances", "8 utterances"]
    assert rows[1].speed_up.value == pytest.approx(10 / 6)
    both = rows_of(
        run(10), run(9, batch={"size": 8, "seconds": None}), run(6, ranks=2, batch={"size": 4, "seconds": None})
    )
    assert both == []  # which of the two batches should one process have had?


@pytest.mark.parametrize(
    ("summary", "config", "expected"),
    [
        ({"ranks": 4}, {"gpus": "auto", "ranks": None}, 4),
        ({}, {"gpus": "auto", "ranks": None}, 1),
        ({}, {"gpus": 2, "ranks": None}, 2),
        ({}, {"gpus": 0, "ranks": 3}, 3),
        ({}, {"gpus": 0}, 1),
    ],
)
def test_processes_are_those_recorded_else_those_of_the_config(summary: Any, config: Any, expected: int) -> None:
    """gpus=auto is one, however many GPUs the machine has."""
    assert processes(replace(run(1), summary=replace(NO_SUMMARY, **summary), config={"seed": 0, **config})) == expected


def test_the_device() -> None:
    gpu, bare = run(1), replace(run(1), environment=Environment(hardware=Hardware(gpus=[])))
    assert (device(gpu), device(bare)) == ("GPU", "CPU")
    assert device(replace(gpu, config={**gpu.config, "gpus": 0})) == "CPU"
    assert device(replace(bare, config={**bare.config, "gpus": 1})) == "GPU"


def test_the_section_of_a_sweep_over_ranks(tmp_path: Path) -> None:
    for ranks, seconds in ((1, 600.0), (2, 400.0)):
        for seed in range(2):
            write_run(
                tmp_path, f"ranks={ranks}", "gpus=0", f"seed={seed}", seconds=seconds, ablation={"factor": "ranks"}
            )
    comparison = compare([tmp_path / "sweep"], Options())
    (section,) = [section for section in sections(comparison) if section.heading.startswith("Scaling")]
    assert section.head[0] == "processes"
    cells = [dict(zip(section.head, row, strict=True)) for row in section.rows]
    assert [(row["processes"], row["minutes per epoch"]) for row in cells] == [
        ("1", "8.00 ± 0.00"),
        ("2", "5.33 ± 0.00"),
    ]
    assert [(row["speed-up (95 %)"], row["efficiency %"]) for row in cells] == [("1.00", "100"), ("1.50", "75")]
    assert "the batch of an update grows" in section.lines[0]
