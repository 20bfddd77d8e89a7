"""The norm of the gradient over training, of runs whose norms are written by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.comparison.derived_tables import gradients
from asr_ablations.report.curves import STRETCHES, gradient_curve
from asr_ablations.report.figures import write_figures
from asr_ablations.report.training_report import gradient_section
from asr_verdicts import plotting
from asr_verdicts.comparison import Comparison
from tests.helpers.comparison import comparison

EXPLODING = [1.0, 2.0, 3.0, 4.0, 1e6, float("inf"), float("nan")]


@pytest.fixture
def exploding(tmp_path: Path) -> Comparison:
    """The first arm is quiet; of the second, one seed has exploded at its fifth step and diverged at the seventh."""
    compared = comparison(tmp_path / "runs", seeds=2)
    quiet, loud, *others = compared.arms
    write(quiet.runs[0].folder, [0.5] * 7)
    write(loud.runs[1].folder, EXPLODING)
    lost = replace(loud.runs[1], diverged_at=7)
    return replace(compared, arms=[quiet, replace(loud, runs=loud.runs[:1], diverged=[lost]), *others])


def write(folder: Path, norms: list[float]) -> None:
    rows = "".join(f"{batch},0.1,{norm!r}\n" for batch, norm in enumerate(norms))
    (folder / "losses.csv").write_text(f"batch,loss,gradient_norm\n{rows}")


def test_the_largest_norm_stands_with_its_step_and_where_the_run_diverged(
    exploding: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the finite norms 1, 2, 3, 4 and 1e6 the median is 3; the 95th percentile lies a fifth before the last."""
    quiet, loud = gradients(exploding.arms)
    assert (quiet.median, quiet.high, quiet.largest, quiet.largest_at, quiet.diverged_at) == (0.5, 0.5, 0.5, 1, None)
    assert (loud.steps, loud.median, loud.largest, loud.largest_at) == (7, 3.0, 1e6, 5)
    assert (loud.not_finite, loud.diverged_at) == (2, 7)
    assert loud.high == pytest.approx(4 + 0.8 * (1e6 - 4))
    monkeypatch.setattr(plotting, "FORMATS", {"svg": plotting.FORMATS["svg"]})
    section = gradient_section(exploding)
    assert section.rows[1][2:] == ["7", "3", "8e+05", "1e+06", "5", "2", "7"]
    write_figures(exploding, tmp_path, ["loss_by_step", "loss_by_epoch"])
    assert ">norm of the gradient<" in (tmp_path / "loss_by_step.svg").read_text()
    assert ">norm of the gradient<" not in (tmp_path / "loss_by_epoch.svg").read_text()
    # 100,000 steps are drawn as 500 points, one of which is the one high norm among them
    norms = [1.0] * 100_000
    norms[77_777] = 1e4
    run = exploding.arms[0].runs[0]
    write(run.folder, norms)
    drawn = gradient_curve(run)
    assert len(drawn.y) == STRETCHES
    assert drawn.x[drawn.y.argmax()] == 77_778
    assert drawn.y.max() == 1e4
