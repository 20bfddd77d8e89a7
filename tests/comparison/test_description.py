"""One arm over seeds is described, not compared."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from asr_ablations.comparison.comparison import compare
from asr_ablations.comparison.derived_tables import descriptions, one_arm
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.sections import sections
from tests.helpers.run_folders import write_run, write_sweep


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    outputs = tmp_path_factory.mktemp("outputs")
    ablation = {"question": "How much is chance?", "factor": "seed"}
    return compare([write_sweep(outputs, {"rnn=lstm": 0.2}, seeds=5, ablation=ablation)], Options())


def test_the_arm_is_not_called_by_a_seed(described: Comparison) -> None:
    assert [arm.name for arm in described.arms] == ["all"]
    assert one_arm(described.arms)
    assert described.verdicts == []


def test_mean_deviation_and_its_interval_best_and_worst(described: Comparison) -> None:
    """The interval of the deviation by chi-square with n − 1 degrees of freedom."""
    by_name = {(each.metric.name, each.set): each.spread for each in descriptions(described.arms)}
    assert list(by_name) == [
        (metric, name) for metric in ("wer", "cer", "cer_longer", "loss") for name in ("dev", "test")
    ]
    for (metric, name), spread in by_name.items():
        values = [run.value(name, metric) for run in described.runs]
        deviation = np.std(values, ddof=1)
        low, high = (deviation * (4 / stats.chi2.isf(tail, 4)) ** 0.5 for tail in (0.025, 0.975))
        assert (spread.runs, spread.best, spread.worst) == (5, min(values), max(values))
        assert spread.mean == pytest.approx(np.mean(values))
        assert spread.deviation is not None
        assert (spread.deviation.value, spread.deviation.low, spread.deviation.high) == pytest.approx(
            (deviation, low, high)
        )


def test_the_section_has_the_unit_of_each_metric(described: Comparison) -> None:
    (section,) = [section for section in sections(described) if section.heading == "One arm over seeds"]
    cells = {(row[0], row[1]): row for row in section.rows}
    wers = [run.summary.sets["test"].wer for run in described.runs]
    assert cells["WER %", "test"][6:] == [f"{100 * min(wers):.2f}", f"{100 * max(wers):.2f}"]
    losses = [run.summary.sets["dev"].loss for run in described.runs]
    assert cells["loss, nats", "dev"][3] == f"{np.mean(losses):.4f}"


def test_neither_a_single_run_nor_several_arms_are_described(tmp_path: Path) -> None:
    write_run(tmp_path, sweep="alone")
    write_sweep(tmp_path, {"rnn=lstm": 0.2, "rnn=gru": 0.2}, seeds=2)
    for name in ("alone", "sweep"):
        arms = compare([tmp_path / name], Options()).arms
        assert not one_arm(arms)
        assert descriptions(arms) == []
