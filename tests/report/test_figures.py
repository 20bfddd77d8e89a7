"""Figures of a comparison made by hand."""

import html
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread

from asr_ablations.report import utilisation
from asr_ablations.report.curves import SMOOTHED_STEPS, curve, loss_curve, smooth, smoothed_loss
from asr_ablations.report.figures import FIGURES, check_figures, write_figures
from asr_ablations.runs.metrics_files import COLUMNS
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison
from asr_verdicts.errors import UsageError
from asr_verdicts.plotting import COLUMN, PAGE
from asr_verdicts.record import Record
from tests.helpers.comparison import ARMS, EPOCHS, comparison


@pytest.fixture(scope="module")
def written(handmade: Comparison, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every kind of figure → its SVG; the names of the arms look like a formula and like a script."""
    arms = [replace(arm, name=f"{arm.name}<script>$\\frac{{1}}$") for arm in handmade.arms]
    paths = write_figures(replace(handmade, arms=arms), tmp_path_factory.mktemp("figures"), kinds=["svg"])
    return {path.stem: path.read_text() for path in paths}


def test_every_kind_is_drawn_as_wide_as_a_column_or_a_page_with_text_of_eight_points(written: dict[str, str]) -> None:
    """Those that a reader wants first are drawn first, and no name is markup."""
    curves = {f"{kind}_by_{axis}" for kind in ("loss", "wer", "cer") for axis in ("epoch", "step", "time")}
    assert written.keys() == curves | {"seeds", "time_to_accuracy", "differences", "utilisation"}
    assert list(written)[:3] == ["differences", "seeds", "wer_by_epoch"]
    for name, text in written.items():
        assert "<script" not in text
        (width,) = re.findall(r'<svg[^>]* width="([\d.]+)pt"', text)
        assert any(float(width) == pytest.approx(72 * inches, abs=0.01) for inches in (COLUMN, PAGE)), name
        sizes = {float(size) for size in re.findall(r"font-size: ([\d.]+)px", text)}
        assert sizes <= {7.0, 8.0}, name
    assert all(f"{html.escape(name)}&lt;script&gt;$\\frac{{1}}$ (3 seeds)" in written["wer_by_epoch"] for name in ARMS)


def test_a_figure_is_written_in_every_format(handmade: Comparison, tmp_path: Path) -> None:
    """LaTeX takes no SVG."""
    paths = {path.suffix: path for path in write_figures(handmade, tmp_path, ["differences"])}
    assert paths.keys() == {".png", ".svg", ".pdf"}
    assert np.ptp(imread(paths[".png"])[..., :3]) > 0.5
    assert ElementTree.parse(paths[".svg"]).getroot().tag.endswith("svg")
    assert paths[".pdf"].read_bytes().startswith(b"%PDF")


def test_figures_are_chosen_by_name_and_nothing_to_draw_is_no_error(handmade: Comparison, tmp_path: Path) -> None:
    names = ["cer_longer_by_time", "differences"]
    assert [path.name for path in write_figures(handmade, tmp_path, names, ["svg"])] == ["differences.svg"]
    with pytest.raises(UsageError, match=r"^figures=differencs: expected differences \(the nearest\), or one of "):
        check_figures(["wer_by_epoch", "differencs"])
    check_figures(FIGURES)
    bare = Record(tmp_path, {"seed": 0}, [])
    design = replace(handmade.design, targets=[], sets=[])
    empty = replace(handmade, arms=[Arm("a", [bare])], verdicts=[], design=design)
    assert write_figures(empty, tmp_path / "figures") == []


def test_the_training_loss_is_of_every_step_over_the_time_of_its_epoch(tmp_path: Path) -> None:
    """Steps lie evenly between the ends of epochs, and the filter is SciPy's with a deviation of 10 steps."""
    compared = comparison(tmp_path / "runs")
    run = compared.arms[0].runs[0]
    ends = curve(run, "train/loss_epoch", "time")
    steps = int(curve(run, "train/loss_epoch", "step").x[-1])
    values = np.exp(-np.arange(steps) / 30) + 0.5
    rows = "".join(f"{step},{value!r}\n" for step, value in enumerate(values.tolist()))
    (run.folder / "losses.csv").write_text(f"batch,loss\n{rows}")
    drawn = loss_curve(run, "time")
    assert drawn.y.tolist() == values.tolist()
    assert drawn.x[-1] == ends.x[-1]
    assert (np.diff(drawn.x) > 0).all()
    assert loss_curve(run, "step").x.tolist() == list(range(1, steps + 1))
    assert SMOOTHED_STEPS == 10
    assert smoothed_loss(run, "time").y.tolist() == smooth(values, 10).tolist()
    write_figures(compared, tmp_path, ["loss_by_time"], ["svg"])
    assert ">training, first seed, " in (tmp_path / "loss_by_time.svg").read_text()


def test_losses_of_different_kinds_share_no_axis(handmade: Comparison, tmp_path: Path) -> None:
    first, *others = handmade.arms
    changed = [replace(run, config={**run.config, "loss": {"_target_": "x.Other"}}) for run in first.runs]
    mixed = replace(handmade, arms=[replace(first, runs=changed), *others])
    for shown, panels_ in ((handmade, 1), (mixed, 0)):
        write_figures(shown, tmp_path, ["loss_by_time"], ["svg"])
        assert (tmp_path / "loss_by_time.svg").read_text().count(">training, first seed, ") == panels_


def test_utilisation_has_a_line_per_gpu_and_the_mean(written: dict[str, str], tmp_path: Path) -> None:
    """Baunsgaard2020 figure 8; a single GPU is the mean."""
    text = written["utilisation"]
    assert all(f">{label}<" in text for label in ("GPU 0", "GPU 1", "GPU, mean", "CPU"))
    alone = comparison(tmp_path / "runs", seeds=1)
    for run in (run for arm in alone.arms for run in arm.runs):
        file = run.folder / "utilisation.csv"
        file.write_text(re.sub(r" [\d.]+$", "", file.read_text(), flags=re.MULTILINE))
    write_figures(alone, tmp_path, ["utilisation"], ["svg"])
    text = (tmp_path / "utilisation.svg").read_text()
    assert "GPU 0" not in text
    assert "GPU, mean" in text


def test_the_phases_of_a_batch_are_shown_where_samples_are_dense(tmp_path: Path) -> None:
    """Baunsgaard2020 figure 8: batches of 4 s, sampled every 0.1 s; the window holds 25 s of them."""
    compared = comparison(tmp_path / "runs", seeds=1)
    assert utilisation.window(compared.arms[0].runs[0]) == []
    run = compared.arms[0].runs[0]
    parts = ["data"] * 5 + ["forward"] * 10 + ["backward"] * 20 + ["update"] * 5
    lines = ",".join(COLUMNS) + "\n" + "".join(
        f"{number / 10},train,50,1,0,80,9,250,0.1,90 70,{parts[number % 40]}\n" for number in range(1000)
    )  # fmt: skip
    (run.folder / "utilisation.csv").write_text(lines)
    dense = replace(run, summary=replace(run.summary, steps=25, train_batch_seconds=100.0))
    rows = utilisation.window(dense)
    assert rows[-1]["seconds"] - rows[0]["seconds"] == pytest.approx(25)
    first, *others = compared.arms
    write_figures(replace(compared, arms=[replace(first, runs=[dense]), *others]), tmp_path, ["utilisation"], ["svg"])
    text = (tmp_path / "utilisation.svg").read_text()
    assert all(f">{label}<" in text for label in ("GPU 0", "GPU 1", "CPU", *utilisation.PARTS))
    # in the legend, and from the middle of one batch to the middle of the seventh
    assert text.count(utilisation.PARTS["backward"]) == 1 + 7


def test_no_bar_stands_for_an_arm_of_which_a_seed_never_arrived(handmade: Comparison, tmp_path: Path) -> None:
    """A bar of the others' mean would flatter it; the number of those that arrived stands there instead."""
    whole = replace(handmade, design=replace(handmade.design, targets=[0.4]))
    lstm, gru, rnn = whole.arms
    *others, last = gru.runs
    early = replace(last, metrics=[row for row in last.metrics if (row["epoch"] or 0) < 3])  # at 73 % and above
    lost = replace(whole, arms=[lstm, replace(gru, runs=[*others, early]), rnn])
    drawn = {}
    for name, shown in (("all", whole), ("lost", lost)):
        write_figures(shown, tmp_path / name, ["time_to_accuracy"], ["svg"])
        drawn[name] = (tmp_path / name / "time_to_accuracy.svg").read_text()
    assert "2/3" not in drawn["all"]
    assert drawn["lost"].count(">2/3<") == 3  # seconds, hours of audio, epochs


def test_a_curve_ends_where_training_ended(handmade: Comparison) -> None:
    run = handmade.arms[0].runs[0]
    for axis, last in (("epoch", 20), ("step", 800), ("audio", 40), ("time", 4.5 * 20 * 1.04)):
        for metric in ("train/loss_epoch", "validation/dev-clean/wer"):
            drawn = curve(run, metric, axis)
            assert len(drawn.x) == EPOCHS
            assert drawn.x[-1] == pytest.approx(last)
    old = replace(run, metrics=[{k: v for k, v in row.items() if not k.startswith("time/")} for row in run.metrics])
    assert len(curve(old, "train/loss_epoch", "time").x) == 0
    assert len(curve(old, "train/loss_epoch", "epoch").x) == EPOCHS
