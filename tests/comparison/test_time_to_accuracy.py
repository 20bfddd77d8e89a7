"""Times to an accuracy, and their ratio."""

from statistics import median

import numpy as np
import pytest
from scipy import stats

from asr_ablations.comparison.time_to_accuracy import (
    Validation,
    at_budget,
    choose_targets,
    ratio_of_times,
    running_medians,
    spent_by_all,
    time_to_accuracy,
    validations,
)


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
    assert at_budget(rows, "seconds", 150) == 0.5
    assert at_budget(rows, "steps", 9) is None
    assert spent_by_all([rows, curve([0.9, 0.5])], "steps") == 20
    assert spent_by_all([rows, []], "steps") is None


def test_chosen_targets_are_reached_by_all_by_half_and_by_one() -> None:
    curves = [curve([0.9, 0.6, 0.5, 0.4, end]) for end in (0.41, 0.3, 0.2)]
    floors = sorted(min(running_medians(rows)) for rows in curves)
    targets = choose_targets(curves)
    assert all(time_to_accuracy(rows, targets[0]) is not None for rows in curves)
    assert time_to_accuracy(min(curves, key=lambda rows: min(running_medians(rows))), targets[-1]) is not None
    assert floors[0] <= targets[-1] <= floors[0] + 0.001
    assert choose_targets([curve([0.9])]) == []


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_the_interval_is_welchs_of_the_logarithms(level: float) -> None:
    generator = np.random.default_rng(0)
    arm, baseline = generator.lognormal(3, 0.1, 5), generator.lognormal(2, 0.3, 5)
    expected = stats.ttest_ind(np.log(arm), np.log(baseline), equal_var=False).confidence_interval(1 - level)
    measured = ratio_of_times(arm.tolist(), baseline.tolist(), level=level)
    assert measured.value == pytest.approx(stats.gmean(arm) / stats.gmean(baseline))
    assert (measured.low, measured.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))


def test_no_noise_no_interval() -> None:
    assert ratio_of_times([1.0], [2.0, 2.0]) == pytest.approx((0.5, None, None))
    assert ratio_of_times([1.0, 1.0], [2.0, 2.0]) == pytest.approx((0.5, None, None))
    assert ratio_of_times([0.0, 1.0], [2.0, 3.0]) is None
