"""Times to an accuracy, compared only within an hour and a machine; error rates against hours of training speech."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from scipy import stats

from asr_ablations.comparison import time_to_accuracy as times
from asr_ablations.comparison.data_scale import crossings, data_scale
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.comparison.time_to_accuracy import Validation, ratio_of_times, time_to_accuracy, validations
from asr_ablations.comparison.training_times import WARNING, ran_together
from asr_ablations.report.training_report import data_scale_section, report_comparison, sections
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.record import DataRecord, Environment, Hardware, Record, SetContent
from tests.helpers.invented_records import record, records
from tests.helpers.run_folders import edit, write_sweep


def metrics(values: list[float], seconds: float = 60.0) -> list[dict[str, float | None]]:
    rows: list[dict[str, float | None]] = []
    for epoch, value in enumerate(values):
        place = {"epoch": float(epoch), "step": 10.0 * (epoch + 1) - 1}
        rows.append({**place, "train/loss_epoch": 1.0, "wer": None})
        rows.append({**place, "wer": value, "time/seconds": seconds * (epoch + 1), "time/audio_hours": epoch + 1.0})
    return rows


def curve(values: list[float]) -> list[Validation]:
    return validations(metrics(values), "wer")


def test_time_to_accuracy_is_its_definition() -> None:
    for seed in range(20):
        noise = 0.1 * np.random.default_rng(seed).standard_normal(20)
        values = (np.linspace(0.9, 0.1, 20) + noise).tolist()
        for target in (0.6, 0.4, 0.2, 0.01):
            ends = [end for end in range(3, 21) if median(values[end - 3 : end]) <= target]
            reached = time_to_accuracy(curve(values), target)
            assert (None if reached is None else reached.spent["epochs"]) == (ends[0] if ends else None)
    rows = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in metrics([0.3, 0.2, 0.1])]
    reached = time_to_accuracy(validations(rows, "wer"), 0.2)
    assert reached.spent == {"seconds": None, "audio_hours": None, "steps": 30, "epochs": 3}
    rows = curve([0.9, 0.5, 0.4])
    assert times.at_budget(rows, "seconds", 150) == 0.5
    assert times.at_budget(rows, "steps", 9) is None
    assert times.spent_by_all([rows, curve([0.9, 0.5])], "steps") == 20
    assert times.spent_by_all([rows, []], "steps") is None


def test_chosen_targets_are_reached_by_all_by_half_and_by_one() -> None:
    curves = [curve([0.9, 0.6, 0.5, 0.4, end]) for end in (0.41, 0.3, 0.2)]
    floors = sorted(min(times.running_medians(rows)) for rows in curves)
    targets = times.choose_targets(curves)
    assert all(time_to_accuracy(rows, targets[0]) is not None for rows in curves)
    assert time_to_accuracy(min(curves, key=lambda rows: min(times.running_medians(rows))), targets[-1]) is not None
    assert floors[0] <= targets[-1] <= floors[0] + 0.001
    assert times.choose_targets([curve([0.9])]) == []


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_the_interval_is_welchs_of_the_logarithms(level: float) -> None:
    generator = np.random.default_rng(0)
    arm, baseline = generator.lognormal(3, 0.1, 5), generator.lognormal(2, 0.3, 5)
    expected = stats.ttest_ind(np.log(arm), np.log(baseline), equal_var=False).confidence_interval(1 - level)
    measured = ratio_of_times(arm.tolist(), baseline.tolist(), level=level)
    assert measured.value == pytest.approx(stats.gmean(arm) / stats.gmean(baseline))
    assert (measured.low, measured.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))


def test_without_noise_there_is_no_interval() -> None:
    assert ratio_of_times([1.0], [2.0, 2.0]) == pytest.approx((0.5, None, None))
    assert ratio_of_times([1.0, 1.0], [2.0, 2.0]) == pytest.approx((0.5, None, None))
    assert ratio_of_times([0.0, 1.0], [2.0, 3.0]) is None


def run(arm: str, seed: int, minutes: float | None, cores: int = 2) -> Record:
    started = (
        None
        if minutes is None
        else (datetime(2026, 1, 1, 12, tzinfo=timezone.utc) + timedelta(minutes=minutes)).isoformat(timespec="seconds")
    )
    return replace(record(arm, seed, 0.2), environment=Environment(started=started, hardware=Hardware(cores=cores)))


def test_each_run_has_one_of_every_other_arm_beside_it_on_one_machine() -> None:
    for lstm, gru, together in (
        ([0, 200], [30, 230], True),  # a pair in each of two hours
        ([0, 10], [70, 80], False),
        ([0, 200], [30, 40], False),  # the second run of one arm has nothing beside it
        ([0, 10], [None, None], True),  # a record that does not say when
    ):
        arms = [
            Arm("lstm", [run("rnn=lstm", seed, minutes) for seed, minutes in enumerate(lstm)]),
            Arm("gru", [run("rnn=gru", seed, minutes) for seed, minutes in enumerate(gru)]),  # type: ignore[arg-type]
        ]
        assert ran_together(arms) is together
        assert ran_together(arms[:1])
    assert not ran_together([Arm("lstm", [run("rnn=lstm", 0, 0)]), Arm("gru", [run("rnn=gru", 0, 1, cores=8)])])


def test_no_table_holds_times_of_different_hours_against_each_other(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.3}, seeds=2)

    def table(heading: str, column: str) -> tuple[list[str], list[str]]:
        shown = sections(compare_folders([sweep], Options(targets=[0.5], baseline="lstm")))
        (section,) = [one for one in shown if one.heading.startswith(heading)]
        return [row[section.head.index(column)] for row in section.rows], section.lines

    for together in (True, False):
        seconds, lines = table("Training", "train s")
        assert ("–" in seconds, lines) == (not together, [] if together else [f"train s: {WARNING}."])
        ratios, lines = table("Until the median", "time / rnn=lstm")
        assert (ratios == ["–", "–"], lines) == (not together, [] if together else [f"time /: {WARNING}."])
        assert "–" not in table("Until the median", "seconds")[0]
        budgets, _ = table("At equal cost", "after")
        assert any(budget.endswith("seconds") for budget in budgets) is together
        assert any(budget.endswith("steps") for budget in budgets)
        for folder in sweep.glob("*gru*"):
            edit(folder / "environment.json", r'"started": "[^"]*"', '"started": "2020-01-01T00:00:00+00:00"')


Curve = Callable[[float], float]
HOURS = [1.0, 4.0, 8.0, 32.0]


def scaled_run(hours: float, seed: int, rate: float, factor: list[str], **more: object) -> Record:
    """A run with exactly this error rate, of a corpus with a little more speech than was asked for."""
    whole = record("width=8", seed, 0.3, ablation={"factor": factor}, data={"subset": {"hours": hours, "seed": seed}},
                   **more)  # fmt: skip
    rows = [{**row, "words": 10**6, "substitutions": round(rate * 10**6)} for row in whole.utterances]
    content = DataRecord(sets={"train": SetContent(hours=1.01 * hours)})
    overrides = [f"data.subset.hours={hours:g}", *(f"{key}={value}" for key, value in more.items())]
    return replace(whole, utterances=rows, data=content, overrides=overrides)


def compared(curves: dict[str, Curve], hours: list[float] = HOURS) -> Comparison:
    factor = ["data.subset.hours", *(["rnn"] if len(curves) > 1 else [])]
    runs = [
        scaled_run(h, seed, curve(h) + (0.01 if seed else -0.01), factor, rnn=name)
        for name, curve in curves.items()
        for h in hours
        for seed in (0, 1)
    ]
    return compare(records(runs), Options(), "sweep")


def test_the_slope_is_the_change_of_the_mean_per_doubling() -> None:
    """0.9 at 1 hour, 0.7 at 4, 0.65 at 8, 0.25 at 32: 2, 1 and 2 doublings. Seeds draw other subsets: replicates."""
    rates = dict(zip(HOURS, (0.9, 0.7, 0.65, 0.25), strict=True))
    rows = data_scale(compared({"lstm": rates.__getitem__}))
    assert [(row.hours, row.n) for row in rows] == [(pytest.approx(1.01 * h), 2) for h in HOURS]
    assert [row.mean for row in rows] == pytest.approx([0.9, 0.7, 0.65, 0.25], abs=1e-6)
    assert [row.deviation for row in rows] == pytest.approx([0.01 * math.sqrt(2)] * 4, abs=1e-6)
    assert rows[0].doubling is None
    assert [row.doubling for row in rows[1:]] == pytest.approx([-0.1, -0.05, -0.2], abs=1e-6)
    assert data_scale(compared({"lstm": lambda h: 0.4, "gru": lambda h: 0.3}, [1.0])) == []
    whole = compare(records([record(f"rnn={rnn}", 0, 0.2) for rnn in ("lstm", "gru")]), Options(), "sweep")
    assert data_scale(whole) == []
    assert data_scale_section(whole).lines == []


def test_curves_cross_where_the_lines_in_the_logarithm_do() -> None:
    """0.6 − 0.04 log2 h and 0.7 − 0.08 log2 h are equal at log2 h = 2.5."""
    both = compared({"lstm": lambda h: 0.6 - 0.04 * math.log2(h), "gru": lambda h: 0.7 - 0.08 * math.log2(h)})
    rows = data_scale(both)
    assert {(row.series, round(row.doubling, 5)) for row in rows if row.doubling is not None} == {
        ("rnn=lstm", -0.04), ("rnn=gru", -0.08),
    }  # fmt: skip
    ((name, *pair, hours),) = crossings(rows)
    assert (name, sorted(pair)) == ("test", ["rnn=gru", "rnn=lstm"])
    assert hours == pytest.approx(1.01 * 2**2.5, rel=1e-4)
    assert data_scale_section(both).lines[-1].endswith(f"cross at about {1.01 * 2**2.5:.3g} hours.")
    assert report_comparison(both).content["data_scale"][1]["doubling"] == pytest.approx(-0.04, abs=1e-5)
