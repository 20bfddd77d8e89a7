"""Side tables: losses against WER, epochs, searches, scaling, noise, rare words, gradients; metrics of runs."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from rich.console import Console
from scipy import stats

from asr_ablations.comparison import derived_tables
from asr_ablations.comparison.derived_tables import Hyperparameter, hyperparameters, loss_against_wer, noise_sources
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.comparison.time_to_accuracy import times_to_accuracy
from asr_ablations.comparison.training_times import COLUMN, Scaling, device, epoch_times, processes, scaling
from asr_ablations.comparison.wandb_runs import evidence_of, fetch, from_runs, to_record
from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.data.description import count_words, training_counts
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.experiment.utterances import utterance_row
from asr_ablations.report.curves import STRETCHES, gradient_curve
from asr_ablations.report.figures import write_figures
from asr_ablations.report.training_report import (
    TRAINING_COLUMNS,
    gradient_section,
    report_comparison,
    search_section,
    sections,
)
from asr_ablations.runs.reader import read_config, read_utterances
from asr_ablations.runs.sweep_history import evidence
from asr_ablations.tools.typed_json import as_json, parse
from asr_verdicts.arms import Arm
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_csv, write_json
from asr_verdicts.metrics import LOSS, find_metric
from asr_verdicts.record import NO_SUMMARY, DataRecord, Environment, Hardware, Record, Summary, UtteranceRow, rates
from asr_verdicts.report.terminal import print_answer
from asr_verdicts.table_columns import RATE_COLUMNS, rate_rows
from tests.helpers.comparison import comparison
from tests.helpers.invented_records import diverged, record, records
from tests.helpers.run_folders import write_run, write_sweep
from tests.helpers.support import compose

LOSSES, RATES = [0.9, 0.5, 0.7, 0.4, 0.6], [0.31, 0.22, 0.30, 0.25, 0.21]


def run(loss: float | None, wer: float, target: str = "losses.CTC") -> Record:
    """A run whose validations rise again at the end: the lowest is not the last."""
    sets = {"dev": {"loss": loss, "wer": wer}, "test": {"loss": 9.0, "wer": wer}}
    metrics = [{"validation/dev/loss": value, "validation/dev/wer": wer / 2} for value in (5.0, 0.1 + wer, 3.0)]
    config = {"seed": 0, "data": {"validation": ["dev"]}, "loss": {"_target_": target}}
    return Record(
        Path("run"), config, [], parse(Summary, {"sets": sets, "test_sets": []}), [dict(row) for row in metrics]
    )


def arms(losses: list[float], rates: list[float]) -> list[Arm]:
    runs = [run(loss, wer) for loss, wer in zip(losses, rates, strict=True)]
    return [Arm("a", runs[:2]), Arm("b", runs[2:])]


def test_the_correlation_of_losses_and_rates_over_all_runs() -> None:
    last, _ = loss_against_wer(arms(LOSSES, RATES), ["dev", "test"])
    assert last.name == "last weights, WER on test"
    assert [(point.arm, point.loss, point.wer) for point in last.points[1:3]] == [("a", 0.5, 0.22), ("b", 0.7, 0.30)]
    assert last.correlation.value == pytest.approx(stats.spearmanr(LOSSES, RATES).statistic)
    assert last.correlation.n == 5
    few, _ = loss_against_wer(arms([*LOSSES[:3]], RATES[:3]), ["test"])
    assert (len(few.points), few.correlation) == (3, None)
    # the lowest loss of these runs is 0.1 above their WER, so that the ranks are the same
    *_, best = loss_against_wer(arms(LOSSES, RATES), ["test"])
    assert [point.loss for point in best.points] == pytest.approx([0.1 + wer for wer in RATES])
    assert [point.wer for point in best.points] == [wer / 2 for wer in RATES]
    assert best.correlation.value == pytest.approx(1)
    runs = [run(0.9, 0.3), *(run(loss, 0.2, "losses.Framewise") for loss in LOSSES)]
    assert loss_against_wer([Arm("a", runs)], ["test"]) == []


def test_the_first_epoch_stands_apart_and_the_ratio_has_welchs_interval() -> None:
    def epochs_run(seconds: list[float], seed: int = 0) -> Record:
        """A record whose rows of epochs stand between others."""
        rows: list[dict[str, float | None]] = [{"step": 1.0, COLUMN: None}]
        for value in seconds:
            rows += [{"validation/dev/wer": 0.5}, {COLUMN: value}]
        return Record(Path("run"), {"seed": seed}, [], metrics=rows)

    seconds = {
        "32": ([200, 100, 104, 96], [190, 111, 109, 110], [210, 90, 92, 88]),
        "16": ([150, 50, 52, 48], [150, 55, 56, 54], [150, 61, 59, 60]),
    }
    slow, fast = (
        Arm(name, [epochs_run([*map(float, row)], seed) for seed, row in enumerate(rows)])
        for name, rows in seconds.items()
    )
    (times, other) = epoch_times([slow, fast], "32")
    assert (times.arm, times.runs, times.epochs, times.first) == ("32", 3, 9, 200)
    assert times.mean == pytest.approx(100)  # of 100, 110 and 90
    assert times.over_runs == pytest.approx(10)
    # √((16 + 1 + 4) / 3): the deviations within runs are 4, 1 and 2, whatever the differences between seeds
    assert times.over_epochs == pytest.approx(7**0.5)
    assert times.ratio is not None
    assert tuple(times.ratio) == (1.0, None, None)
    logs = np.log([50, 55, 60]), np.log([100, 110, 90])
    interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval()
    assert other.ratio is not None
    assert tuple(other.ratio) == pytest.approx(
        (np.exp(logs[0].mean() - logs[1].mean()), np.exp(interval.low), np.exp(interval.high))
    )


def test_what_was_tried_stands_by_key_with_the_best(tmp_path: Path) -> None:
    """A key with one value in all runs has nothing to show, and only what a search proposed counts."""
    space = {"optimizer.lr": " tag(log, interval(3e-4, 1e-2))", "width": "choice(64, 128)", "layers": "choice(1, 2)"}
    factor, sweep, tried = list(space), tmp_path / "sweep", []
    sweep.mkdir()
    write_json(sweep / "sweep.json", {"launches": [], "space": space})
    for rate, width, wer in ((0.001, 64, 0.4), (0.003, 128, 0.2), (0.01, 64, 0.3)):
        run = record(f"width={width}", 0, wer)
        summary = replace(run.summary, best_validation_wer=wer)
        proposed = replace(run, folder=sweep / f"{rate}", searched=True, summary=summary)
        levels = {"optimizer.lr": str(rate), "width": str(width), "layers": "1"}
        tried.append(Arm(f"{rate}", [proposed], levels=levels))

    def of_factor(arms: list[Arm], factor: list[str]) -> Comparison:
        whole = compare(records([record("x=y", 0, 0.2)]), Options(), "search")
        design = whole.design
        return replace(whole, arms=arms, design=replace(design, layout=replace(design.layout, factor=factor)))

    assert hyperparameters(of_factor(tried, factor)) == [
        Hyperparameter("optimizer.lr", [0.001, 0.003, 0.01], [0.4, 0.2, 0.3], 1, logarithmic=True),
        Hyperparameter("width", [64.0, 128.0, 64.0], [0.4, 0.2, 0.3], 1, logarithmic=False),
    ]
    (figure,) = write_figures(of_factor(tried, factor), tmp_path, ["search"], ["svg"])
    assert all(
        f">{label}<" in figure.read_text() for label in ("optimizer.lr", "width", "best: 20.0 %", "0.003", "128")
    )
    first, *others = tried
    declared = replace(first, runs=[replace(run, searched=False) for run in first.runs])
    assert [one.rates for one in hyperparameters(of_factor([declared, *others], ["width"]))] == [[0.2, 0.3]]
    assert hyperparameters(of_factor([declared, declared, others[0]], factor)) == []


def test_a_search_ranks_its_runs_and_decides_nothing_unless_runs_confirm_it() -> None:
    def compared(*options: Options, confirmed: int = 0) -> Comparison:
        """A search of three runs and one that diverged; confirmed: runs of the best that were started afterwards."""
        own = []
        for rate, wer in {"0.001": 0.4, "0.003": 0.2, "0.0100000001": 0.3}.items():
            run = record(f"lr={rate}", 0, wer + 0.1)
            own.append(replace(run, searched=True, summary=replace(run.summary, best_validation_wer=wer, epochs=4)))
        lost = replace(diverged("lr=9.0", 0), searched=True)
        later = [record("lr=0.003", seed, 0.3) for seed in range(1, 1 + confirmed)]
        return compare(records([*own, lost], later), *options or [Options()], title="search")

    found = compared()
    assert found.verdicts == []
    section = search_section(found)
    assert section.head == ["lr", "validation", "test", "epochs"]
    assert [(row[0], row[1], row[3]) for row in section.rows] == [
        ("0.003", "20.00", "4"), ("0.01", "30.00", "4"), ("0.001", "40.00", "4"), ("9", "diverged", "NA"),
    ]  # fmt: skip
    measured = {row["arm"]: row["wer"] for row in rate_rows(found)}
    assert section.rows[0][2] == f"{100 * measured['lr=0.003']:.2f}"
    printed = StringIO()
    print_answer(report_comparison(found), Console(file=printed, width=80))
    assert "There are no verdicts" in " ".join(printed.getvalue().split())
    assert "undecided" not in printed.getvalue()
    confirmed = compared(confirmed=3)
    assert search_section(confirmed).rows == []
    assert confirmed.verdicts
    assert {verdict.baseline for verdict in compared(Options(baseline="lr=0.003")).verdicts} == {"lr=0.003"}


def scaling_run(minutes: float, *, ranks: int = 1, seed: int = 0, price: float | None = None, **config: Any) -> Record:
    """A record of three epochs, the first of which takes twice as long."""
    seconds = [120 * minutes, 60 * minutes, 60 * minutes]
    whole = {"seed": seed, "gpus": "auto", "ranks": ranks, "batch": {"size": 16, "seconds": None}, **config}
    whole["hardware"] = {"price_per_hour": price}
    return Record(
        Path(f"run-{ranks}-{seed}"), whole, [],
        replace(NO_SUMMARY, ranks=ranks, audio_hours_per_second=960 / 60 / minutes),
        [{COLUMN: value} for value in seconds], environment=Environment(hardware=Hardware(gpus=["V100"] * 4)),
    )  # fmt: skip


def scaling_of(*runs: Record) -> list[Scaling]:
    return scaling([Arm(str(number), [each]) for number, each in enumerate(runs)])


def test_the_published_epochs() -> None:
    """Ambroszczyk2019 table 2.2: 119, 56, 36 minutes are speed-ups of 2.125, 3.306; efficiencies of 106, 83 %."""
    epochs = {1: 119, 2: 56, 4: 36}
    rows = scaling_of(*(scaling_run(minutes, ranks=count, price=12.24) for count, minutes in epochs.items()))
    assert [row.processes for row in rows] == [1, 2, 4]
    assert [row.epoch_seconds / 60 for row in rows] == pytest.approx([119, 56, 36])
    assert [row.speed_up.value for row in rows] == pytest.approx([1, 119 / 56, 119 / 36])
    assert [row.efficiency for row in rows] == pytest.approx([1, 119 / 112, 119 / 144])
    assert [row.price for row in rows] == pytest.approx([12.24 * minutes / 60 for minutes in epochs.values()])
    assert {(row.series, row.device, row.batch, row.deviation) for row in rows} == {("", "GPU", "16 utterances", None)}


def test_a_series_for_each_of_what_else_differs_and_a_batch_that_shrinks() -> None:
    """Ambroszczyk2019 tables 2.1 and 2.2 are of one precision each: their speed-ups are their own."""
    rows = scaling_of(
        scaling_run(135, precision=32),
        scaling_run(75, ranks=2, precision=32),
        scaling_run(119, precision=16),
        scaling_run(56, ranks=2, precision=16),
    )
    assert [(row.series, row.processes) for row in rows] == [
        ("precision=32", 1), ("precision=32", 2), ("precision=16", 1), ("precision=16", 2),
    ]  # fmt: skip
    assert [row.speed_up.value for row in rows] == pytest.approx([1, 135 / 75, 1, 119 / 56])
    # strong scaling: the runs differ in the batch of a process, too
    shrunk = scaling_run(6, ranks=2, batch={"size": 8, "seconds": None})
    rows = scaling_of(scaling_run(10), shrunk)
    assert [row.batch for row in rows] == ["16 utterances", "8 utterances"]
    assert rows[1].speed_up.value == pytest.approx(10 / 6)
    # which of the two batches should one process have had?
    assert scaling_of(scaling_run(10), scaling_run(9, batch={"size": 4, "seconds": None}), shrunk) == []


def test_sources_of_noise_are_shares_of_the_variance_of_all_together() -> None:
    """By scipy's F: a variance of a quarter of the baseline's, eight runs of each."""

    def changing(arms: list[Arm], changes: dict[str, str]) -> Comparison:
        whole = compare(records(arms[0].runs), Options(), "noise")
        design = replace(whole.design, baseline=arms[0], layout=replace(whole.design.layout, changes=changes))
        return replace(whole, arms=arms, design=design)

    luck = np.array([-3, -2, -1, 0, 0, 1, 2, 3]) / 100
    runs = {
        name: [record("rnn=lstm", seed, 0.3 + scale * value) for seed, value in enumerate(luck, start=first)]
        for name, scale, first in (("all", 1.0, 0), ("order", 0.5, 8))
    }
    arms = [Arm(name, of_arm) for name, of_arm in runs.items()]
    changes = {"all": "nothing", "order": "seeds.init=0 seeds.dropout=0"}
    whole, order = noise_sources(changing(arms, changes))
    assert whole.share is None
    assert order.share.value == pytest.approx((order.deviation / whole.deviation) ** 2)
    assert order.share.low == pytest.approx(order.share.value / stats.f.ppf(0.975, 7, 7))
    assert order.share.high == pytest.approx(order.share.value / stats.f.ppf(0.025, 7, 7))
    assert noise_sources(changing(arms, {**changes, "order": "rnn=gru"})) == []
    shared = [arms[0], replace(arms[1], runs=[arms[0].runs[0], *arms[1].runs])]
    assert noise_sources(changing(shared, changes)) == [whole, order], "a shared run is in the variance of all alone"


def test_processes_are_those_recorded_else_those_of_the_config() -> None:
    """gpus=auto is one, however many GPUs the machine has."""
    auto: dict[str, Any] = {"gpus": "auto", "ranks": None}
    cases: list[tuple[dict[str, Any], dict[str, Any], int]] = [
        ({"ranks": 4}, auto, 4), ({}, auto, 1), ({}, {"gpus": 2, "ranks": None}, 2), ({}, {"gpus": 0, "ranks": 3}, 3),
    ]  # fmt: skip
    gpu = scaling_run(1)
    for summary, config, expected in cases:
        made = replace(gpu, summary=replace(NO_SUMMARY, **summary), config={"seed": 0, **config})
        assert processes(made) == expected
    bare = replace(gpu, environment=Environment(hardware=Hardware(gpus=[])))
    assert (device(gpu), device(bare)) == ("GPU", "CPU")
    assert device(replace(gpu, config={**gpu.config, "gpus": 0})) == "CPU"
    assert device(replace(bare, config={**bare.config, "gpus": 1})) == "GPU"


def spoken_run(*texts: tuple[str, str], counted: bool = True) -> Record:
    counts = {"zebra": 0, "yak": 1, "gnu": 2, "cow": 9, "dog": 10} if counted else None
    rows: list[UtteranceRow] = [
        {
            "set": "test", "id": str(number), "speaker": "s", "reference": reference, "hypothesis": hypothesis,
            "words": len(reference.split()), "substitutions": 0, "deletions": 0, "insertions": 0,
        }
        for number, (reference, hypothesis) in enumerate(texts)
    ]  # fmt: skip
    return Record(Path("run"), {"seed": 0}, [], utterances=rows, data=DataRecord(training_counts=counts))


def test_a_word_is_wrong_where_its_place_has_another_or_none() -> None:
    """An insertion belongs to no word of the reference."""
    first = spoken_run(("zebra yak dog", "zebra jak dog"), ("cow dog", "cow well dog"))
    second = spoken_run(("zebra yak dog", "zebra yak"), ("cow dog", "now dog"))
    (row,) = derived_tables.word_frequencies([Arm("arm", [first, second])], ["test"])
    assert row.words == [1, 1, 1, 2]
    assert row.wrong == [0, 1 / 2, 1 / 2, 1 / 4]
    for runs in (
        [spoken_run(("cow dog", "dog"))],  # training has all of them often
        [spoken_run(("yak", "")), spoken_run(("yak", ""), counted=False)],
        [spoken_run(("yak unknown", ""))],  # of another set than those of the run
    ):
        assert derived_tables.word_frequencies([Arm("arm", runs)], ["test"]) == []


def test_the_section_names_the_share_and_the_words(tmp_path: Path) -> None:
    arms = [
        Arm("greedy", [spoken_run(("zebra yak dog", "zebra jak dog"))]),
        Arm("words", [spoken_run(("zebra yak dog", "yak dog"))]),
    ]
    whole = comparison(tmp_path)
    shown = sections(replace(whole, arms=arms, design=replace(whole.design, sets=["test"]), verdicts=[]))
    (section,) = (one for one in shown if one.heading == "Wrong words by their frequency in training")
    assert section.rows == [
        ["greedy", "test", "0.0 % of 1", "100.0 % of 1", "–", "0.0 % of 1"],
        ["words", "test", "100.0 % of 1", "0.0 % of 1", "–", "0.0 % of 1"],
    ]


def test_training_is_counted_for_the_words_of_the_other_sets_alone() -> None:
    def spoken(*texts: str) -> Utterances:
        return Utterances.convert([Utterance(str(n), "s", Path("a"), 0.0, 1.0, text) for n, text in enumerate(texts)])

    counts = training_counts(
        count_words(spoken("a cow and a dog", "a cow")), map(count_words, [spoken("cow zebra"), spoken("dog cow")])
    )
    assert counts == {"cow": 2, "dog": 1, "zebra": 0}
    assert list(counts) == sorted(counts)


def test_the_largest_norm_stands_with_its_step_and_where_the_run_diverged(tmp_path: Path) -> None:
    """The first arm is quiet; of the second, one seed has exploded at its fifth step and diverged at the seventh. Of
    the finite norms 1, 2, 3, 4 and 1e6 the median is 3; the 95th percentile lies a fifth before the last.
    """

    def write(folder: Path, norms: list[float]) -> None:
        rows = "".join(f"{batch},0.1,{norm!r}\n" for batch, norm in enumerate(norms))
        (folder / "losses.csv").write_text(f"batch,loss,gradient_norm\n{rows}")

    whole = comparison(tmp_path / "runs", seeds=2)
    silent, second, *others = whole.arms
    write(silent.runs[0].folder, [0.5] * 7)
    write(second.runs[1].folder, [1.0, 2.0, 3.0, 4.0, 1e6, float("inf"), float("nan")])
    lost = replace(second.runs[1], diverged_at=7)
    arms = [silent, replace(second, runs=second.runs[:1], diverged=[lost]), *others]
    exploding = replace(whole, arms=arms)
    quiet, loud = derived_tables.gradients(exploding.arms)
    assert (quiet.median, quiet.high, quiet.largest, quiet.largest_at, quiet.diverged_at) == (0.5, 0.5, 0.5, 1, None)
    assert (loud.steps, loud.median, loud.largest, loud.largest_at) == (7, 3.0, 1e6, 5)
    assert (loud.not_finite, loud.diverged_at) == (2, 7)
    assert loud.high == pytest.approx(4 + 0.8 * (1e6 - 4))
    section = gradient_section(exploding)
    assert section.rows[1][2:] == ["7", "3", "8e+05", "1e+06", "5", "2", "7"]
    write_figures(exploding, tmp_path, ["loss_by_step", "loss_by_epoch"], ["svg"])
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


def test_the_losses_are_those_of_the_records(tmp_path: Path) -> None:
    """The validation set comes first, then the test set; the loss of a set is the mean over seeds."""
    sweep = write_sweep(tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.3}, seeds=4)
    comparison = compare_folders([sweep], Options(metric="loss", baseline="lstm"))
    assert comparison.sets == ["dev", "test"]
    (contrast,) = [contrast for contrast in comparison.verdicts if contrast.set == "dev"]
    expected = {
        arm.name: sum(run.summary.sets["dev"].loss for run in arm.runs) / len(arm.runs) for arm in comparison.arms
    }
    assert contrast.difference == pytest.approx(expected["rnn=gru"] - expected["rnn=lstm"])
    columns = [*RATE_COLUMNS, *TRAINING_COLUMNS]
    rows = {(row["arm"], row["set"]): row for row in rate_rows(comparison, columns)}
    assert rows["rnn=gru", "dev"]["loss"] == pytest.approx(expected["rnn=gru"])
    assert rows["rnn=gru", "dev"]["last_validation_loss"] == pytest.approx(4 * 0.3)  # of the curve
    assert rows["rnn=gru", "dev"]["best_validation_loss"] == pytest.approx(4 * 0.25)


def test_characters_over_the_longer_text(tmp_path: Path) -> None:
    """Baunsgaard2020 §4.1.1, equation 3: as recorded, and as noisy over speakers as the ratio of drawn sums."""

    def lengthen(folder: Path) -> None:
        noise = np.random.default_rng(int(read_config(folder)["seed"]))
        rows = []
        for row in read_utterances(folder / "utterances.csv"):
            more = " and so on" * int(noise.integers(0, 3)) if row["speaker"] in "1234" else ""
            spoken = Utterance(row["id"], row["speaker"], Path("x.flac"), 0.0, 1.0, row["reference"])
            rows.append(utterance_row(row["set"], spoken, row["reference"], row["hypothesis"] + more))
        write_csv(folder / "utterances.csv", rows)
        summary = json.loads((folder / "summary.json").read_text())
        for name, final in summary["sets"].items():
            final.update(as_json(rates([row for row in rows if row["set"] == name])))
        write_json(folder / "summary.json", summary)

    sweep = write_sweep(tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.3}, seeds=2, change=lengthen)
    comparison = compare_folders([sweep], Options(metric="cer_longer", baseline="lstm"))
    (contrast,) = comparison.verdicts
    values = {row["arm"]: row["cer_longer"] for row in rate_rows(comparison)}
    assert contrast.difference == pytest.approx(values["rnn=gru"] - values["rnn=lstm"])
    assert values["rnn=gru"] < next(row["cer"] for row in rate_rows(comparison) if row["arm"] == "rnn=gru")
    draws = np.random.default_rng(0).multinomial(12, np.full(12, 1 / 12), size=20_000)
    drawn = {}
    for arm in comparison.arms:
        ratios = []
        for run in arm.runs:
            tested = [row for row in run.utterances if row["set"] == "test"]
            by_speaker = np.zeros((2, 12))
            for row in tested:
                kinds = ("substitutions", "deletions", "insertions")
                by_speaker[0, int(row["speaker"])] += sum(row[f"character_{kind}"] for kind in kinds)
                by_speaker[1, int(row["speaker"])] += max(len(row["reference"]), len(row["hypothesis"]))
            ratios.append((draws @ by_speaker[0]) / (draws @ by_speaker[1]))
        drawn[arm.name] = np.mean(ratios, axis=0)
    error = np.sqrt(12 / 11) * (drawn["rnn=gru"] - drawn["rnn=lstm"]).std()
    assert contrast.estimate.over_speakers.standard_error == pytest.approx(error, rel=0.05)


def test_targets_of_a_sweep_file_are_of_its_metric(tmp_path: Path) -> None:
    """Targets in nats would mean nothing for a rate: others are chosen from the curves, and said to be."""
    for metric, other, target in (("wer", "loss", 0.3), ("loss", "wer", 1.2)):
        ablation = {"factor": "rnn", "targets": [target], "metric": metric}
        sweep = write_run(tmp_path, ablation=ablation, sweep=metric).parent
        times = times_to_accuracy(compare_folders([sweep], Options(metric=metric)))
        assert {(time.target, time.chosen) for time in times} == {(target, False)}
        assert all(time.chosen for time in times_to_accuracy(compare_folders([sweep], Options(metric=other))))


def api_run(
    name: str, rate: float, seed: int, state: str = "finished", job_type: str = "train", declared: Any = None
) -> Any:
    """The part of wandb.apis.public.Run that is read."""
    overrides = ["data=an4", "data.root=x", f"rnn={name}", f"seed={seed}"]
    config: Any = OmegaConf.to_container(compose(*overrides), resolve=True)
    history = [
        {"_step": 0, "epoch": 0, "trainer/global_step": 9, "validation/dev/wer": 50, "validation/dev/loss": 2.0},
        {"_step": 1, "epoch": 1, "trainer/global_step": 19, "validation/dev/wer": 30, "validation/dev/loss": 1.5},
        {"_step": 2, "final/dev/wer": 30, "final/test/wer": 100 * rate, "final/test/cer": 100 * rate / 3},
        {"_step": 3, "examples": {"_type": "table-file"}},
    ]
    config["overrides"] = overrides
    logged = {**plain_config(config), "identity": f"id{seed}"}
    recorded = {"started": "2026-01-01", "place": None, "declared": declared, "speakers": {}}
    return SimpleNamespace(
        id=f"{name}{seed}", name=name, config=logged, state=state, job_type=job_type,
        scan_history=lambda: history, logged_artifacts=list, summary={"record": json.dumps(recorded)},
    )  # fmt: skip


def test_a_run_of_the_api_becomes_a_record() -> None:
    run = to_record(api_run("gru", 0.2, 1))
    assert run.seed == 1
    assert as_json(run.summary.sets["test"]) == {"wer": 0.2, "cer": pytest.approx(0.2 / 3), "loss": None}
    assert (run.summary.test_sets, run.summary.best_validation_wer, run.summary.epochs) == (["test"], 0.3, 2)
    assert run.summary.validation_losses == [2.0, 1.5]
    assert [row["step"] for row in run.metrics[:2]] == [9, 19]
    assert run.config["rnn"]["_target_"].endswith(".GRU")
    assert run.config["optimizer"]["lr"] == compose().optimizer.lr
    assert run.config["batch"]["size"] == compose("data=an4", "data.root=x").batch.size
    rates = {"gru": (0.30, 0.31, 0.32), "lstm": (0.10, 0.11, 0.12)}
    records = from_runs([api_run(name, rate, seed) for name, all_ in rates.items() for seed, rate in enumerate(all_)])
    comparison = compare(records, Options(baseline="lstm"), "group")
    (verdict,) = comparison.verdicts
    assert any("behaviour versions" in line for line in comparison.warnings)
    assert verdict.estimate.over_speakers is None
    assert "3 seeds, speakers left out: there are no utterances." in verdict.sentence
    assert verdict.sentence.startswith(
        "rnn=gru is worse than rnn=lstm on test: 31.00 % against 11.00 % WER, a difference of +20.00 points ("
    )


def test_an_artifact_of_utterances_is_read(tmp_path: Path) -> None:
    run = api_run("gru", 0.2, 0)
    rows = record("rnn=gru", 0, 0.2).utterances

    def download(root: str) -> None:
        write_csv(Path(root) / "utterances.csv", rows)

    run.logged_artifacts = lambda: [
        SimpleNamespace(type="config"),
        SimpleNamespace(type="utterances", download=download),
    ]
    assert to_record(run).utterances == rows
    assert not [line for line in from_runs([run]).warnings if "seeds only" in line]


def test_targets_out_of_range() -> None:
    assert LOSS.check_target(20) == 20
    rate = "a rate as a fraction"
    for metric, target, message in (("wer", 20, rate), ("cer", 0, rate), ("loss", -1, "a loss above 0, in nats")):
        with pytest.raises(UsageError, match=f"target={target}: expected {message}"):
            find_metric(metric).check_target(target)


def test_different_losses_are_not_compared(tmp_path: Path) -> None:
    for choices, named in (
        (("loss=ctc", "loss=framewise"), "CTC with reduction=label, Framewise with reduction=frame"),
        (("loss.reduction=label", "loss.reduction=sum"), "CTC with reduction=label, CTC with reduction=sum"),
    ):
        for choice in choices:
            sweep = write_run(tmp_path / named, choice).parent
        with pytest.raises(UsageError, match=rf"metric=loss: the runs minimise different losses \({named}\); expected"):
            compare_folders([sweep], Options(metric="loss"))
        assert compare_folders([sweep], Options(metric="wer")).arms


def test_what_wandb_has_besides_finished_trainings_of_this_project() -> None:
    others = [api_run("lstm", 0.1, seed, job_type=kind) for seed, kind in enumerate(("comparison", "evaluation"))]
    records = from_runs([api_run("gru", 0.2, 0), *others, api_run("lstm", 0.2, 0, state="crashed")])
    assert [run.folder.name for run in records.runs] == ["gru"]
    unfinished = [(run.state, run.reason, run.config and run.config["seed"]) for run in records.unfinished]
    assert unfinished == [("failed", "crashed", 0)]
    stranger = api_run("gru", 0.2, 1)  # its rates might be fractions
    stranger.summary = {}
    with pytest.raises(UsageError, match="run gru: its summary lacks `record`"):
        to_record(stranger)
    for path in ("entity/project", "a/b/c/d", "a//c"):
        with pytest.raises(UsageError, match="entity/project/group"):
            fetch(path)


def test_what_was_declared_gets_the_test_that_the_folders_have() -> None:
    for states, procedure in (
        (("finished", "finished"), "fixed"), (("finished", "crashed"), "anytime"), (("finished",), "anytime")
    ):  # fmt: skip
        both = [2, evidence(["id0", "id1"])]
        runs = [api_run("gru", 0.2, seed, state, declared=both) for seed, state in enumerate(states)]
        assert evidence_of(runs, from_runs(runs)).procedure.name == procedure
    undeclared = [api_run("gru", 0.2, 0)]
    assert evidence_of(undeclared, from_runs(undeclared)).procedure.name == "anytime"
