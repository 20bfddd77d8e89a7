"""Turns, warm-up, budget and spread of measurements."""

import statistics

import pytest

from asr_ablations.tools.errors import UsageError
from asr_benchmarks.timing import Timing, in_turn, noise_notes


class Variant:
    """Gives 1, 2, 3, … seconds and writes down when it was called."""

    def __init__(self, name, calls):
        self.name, self.calls, self.count = name, calls, 0

    def __call__(self):
        self.count += 1
        self.calls.append(self.name)
        return float(self.count)


def test_variants_take_turns_and_who_begins_changes():
    calls = []
    in_turn({name: Variant(name, calls) for name in "ab"}, steps=3, warmup=1)
    assert "".join(calls) == "abbaabba"


def test_warm_up_is_not_measured():
    timings = in_turn({"a": Variant("a", [])}, steps=3, warmup=2, block=2)
    assert timings["a"].seconds == (3, 4, 5)


def test_a_variant_out_of_budget_is_measured_as_often_as_it_must_be(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))  # every call takes a second
    calls = []
    timings = in_turn({"a": Variant("a", calls)}, steps=100, warmup=50, budget=4.5)
    # five calls spend it; the first warm-up call never counts, and from the fifth on all do
    assert timings["a"].seconds == (5, 6, 7)


def test_a_row_tells_mean_median_and_the_spread_of_the_middle_half():
    timing = Timing((0.1, 0.2, 0.3, 0.4, 1.0))
    row = timing.row()
    assert row["ms"] == pytest.approx(300)
    assert row["mean ms"] == pytest.approx(400)
    assert row["sd ms"] == pytest.approx(1000 * statistics.stdev(timing.seconds))
    assert row["spread %"] == pytest.approx(100 * (0.4 - 0.2) / 0.3)
    assert noise_notes({"one": timing, "two": Timing((1.0, 1.05, 1.1))}) == [
        "noisy, the middle half spreads over more than 10 % of the median: one 67 %"
    ]


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"steps": 0}, "benchmark.steps=0: expected a whole number, 1 or more"),
        ({"warmup": -1}, "benchmark.warmup=-1: expected a whole number, 0 or more"),
        ({"budget": 0}, "benchmark.budget=0: expected seconds, above 0, or null for no limit"),
    ],
)
def test_wrong_counts_are_one_line(wrong, line):
    with pytest.raises(UsageError, match=line):
        in_turn({"a": Variant("a", [])}, **{"steps": 1, "warmup": 0, **wrong})
