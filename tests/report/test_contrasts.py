"""A contrast as a row: the interval is the verdict's own, in every format."""

from pathlib import Path

import pytest

from asr_ablations.comparison.comparison import compare_runs
from asr_ablations.comparison.contrast import SHOWN
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.page.content import DEFINITIONS
from asr_ablations.report.tables import contrast_row, interval_text
from asr_ablations.tools.files import REPOSITORY
from tests.helpers.invented_records import record, records


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    rates = {"lstm": 0.2, "gru": 0.3, "rnn": 0.203}
    runs = [record(f"rnn={name}", seed, rate) for name, rate in rates.items() for seed in range(6)]
    return compare_runs(records(runs), Options(baseline="lstm"), "test")


def test_the_interval_excludes_0_exactly_where_a_difference_is_shown(comparison: Comparison) -> None:
    rows = [contrast_row(verdict) for verdict in comparison.verdicts]
    assert [row["outcome"] for row in rows] == ["worse", "no difference shown"]
    assert [row["low"] > 0 or row["high"] < 0 for row in rows] == [row["outcome"] in SHOWN for row in rows]
    assert all(row["low"] < row["difference"] < row["high"] for row in rows)
    low, high = interval_text(comparison.verdicts[0]).split(" to ")
    assert (float(low), float(high)) == pytest.approx((100 * rows[0]["low"], 100 * rows[0]["high"]), abs=0.005)


def test_a_contrast_without_noise_has_no_interval() -> None:
    runs = [record(f"rnn={name}", 0, 0.2) for name in ("lstm", "gru")]
    (verdict,) = compare_runs(records(runs), Options(), "test").verdicts
    row = contrast_row(verdict)
    assert (row["low"], row["high"], row["p"], row["standard_error"]) == (None, None, None, None)
    assert interval_text(verdict) == "NA"


def test_the_documentation_holds_every_definition() -> None:
    text = " ".join(Path(REPOSITORY / "docs" / "statistics.md").read_text(encoding="utf-8").split())
    assert [term for term, definition in DEFINITIONS.items() if f"| {term} | {definition} |" not in text] == []
