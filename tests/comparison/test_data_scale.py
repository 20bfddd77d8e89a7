"""Error rates against hours of training speech: slopes and crossings of curves that are known."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from asr_ablations.comparison.data_scale import crossings, data_scale
from asr_ablations.report.training_report import data_scale_section, report_comparison
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.record import DataRecord, Record, SetContent
from tests.helpers.invented_records import record, records

Curve = Callable[[float], float]
HOURS = [1.0, 4.0, 8.0, 32.0]


def run(hours: float, seed: int, rate: float, factor: list[str], **more: object) -> Record:
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
        run(h, seed, curve(h) + (0.01 if seed else -0.01), factor, rnn=name)
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
