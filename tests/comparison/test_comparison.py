"""Comparisons of run folders."""

import itertools
import json
import re
from pathlib import Path

import pytest

from asr_ablations.commands.compare import main
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.comparison.time_to_accuracy import at_equal_cost, relative_time, times_to_accuracy
from asr_ablations.report.training_report import TRAINING_COLUMNS, sections
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_json
from asr_verdicts.table_columns import RATE_COLUMNS, rate_rows
from tests.helpers.run_folders import declare, edit, write_run, write_sweep


def test_where_no_baseline_is_declared_it_is_the_arm_that_was_typed_first(tmp_path: Path) -> None:
    """Arms that run at the same time start in any order."""
    gru, rnn, lstm = (write_run(tmp_path, f"rnn={name}", "seed=0") for name in ("gru", "rnn", "lstm"))
    declare(lstm.parent, [lstm, gru, rnn])
    assert compare_folders([lstm.parent], Options()).baseline == "rnn=lstm"


def test_times_relative_to_the_baseline(tmp_path: Path) -> None:
    """lstm's seeds take 40 and 50 s to a median of 0.3, gru's 100 and 80 s; one of rnn's never reaches it."""
    slow, fast, never = [0.9, 0.5, 0.3, 0.3, 0.3], [0.9, 0.5, 0.3, 0.25, 0.2], [0.9, 0.8, 0.8, 0.8, 0.8]
    for choice, seconds, curves in (
        ("rnn=lstm", 10, (fast, [0.9, 0.9, 0.5, 0.3, 0.25])),
        ("rnn=gru", 20, ([0.9, 0.9, 0.5, 0.3, 0.25], slow)),
        ("rnn=rnn", 10, (slow, never)),
    ):
        for seed, values in enumerate(curves):
            write_run(tmp_path, choice, f"seed={seed}", curve=values, seconds=seconds)
    comparison = compare_folders([tmp_path / "sweep"], Options(baseline="lstm", targets=[0.3]))
    times = times_to_accuracy(comparison)
    ratio = relative_time(times, "rnn=gru", "rnn=lstm", 0.3)
    assert ratio.value == pytest.approx(((100 * 80) / (40 * 50)) ** 0.5)
    assert relative_time(times, "rnn=rnn", "rnn=lstm", 0.3) is None
    (section,) = [section for section in sections(comparison) if "time / rnn=lstm" in section.head]
    column = section.head.index("time / rnn=lstm")
    assert {row[0]: row[column] for row in section.rows} == {
        "rnn=lstm": "1.00",
        "rnn=gru": f"2.00 ({ratio.low:.2f} to {ratio.high:.2f})",
        "rnn=rnn": "NA",
    }


def test_a_single_seed_decides_nothing(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.4}, seeds=1)
    (verdict,) = compare_folders([sweep], Options(baseline="lstm")).verdicts
    assert (verdict.p, verdict.low, verdict.detectable, verdict.outcome) == (None, None, None, "undecided")
    assert verdict.p_pairs < 0.001
    assert "with one seed per arm the variation between seeds is unknown." in verdict.sentence


def test_the_same_choice_and_seed_twice_counts_once(tmp_path: Path) -> None:
    first, second = write_run(tmp_path, sweep="a"), write_run(tmp_path, sweep="b")
    comparison = compare_folders([tmp_path / "a", tmp_path / "b"], Options())
    assert [len(arm.runs) for arm in comparison.arms] == [1]
    assert any(str(second) in line or str(first) in line for line in comparison.warnings)


def test_mistakes(tmp_path: Path) -> None:
    write_run(tmp_path, "rnn=lstm")
    with pytest.raises(UsageError, match="baseline=gpu: expected"):
        compare_folders([tmp_path / "sweep"], Options(baseline="gpu"))
    with pytest.raises(UsageError, match=r"target=20: expected a rate as a fraction: 0\.2 is 20 %"):
        compare_folders([tmp_path / "sweep"], Options(targets=[20]))
    with pytest.raises(UsageError, match="metric=ser"):
        compare_folders([tmp_path / "sweep"], Options(metric="ser"))
    write_run(tmp_path, status="failed", sweep="broken")
    with pytest.raises(UsageError, match="no run is finished"):
        compare_folders([tmp_path / "broken"], Options())


def test_the_tutorial_quotes_the_answer_as_it_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def form(text: str) -> str:
        """A text whose numbers are 0 and whose lines may be wrapped elsewhere."""
        return " ".join(re.sub(r"[+−]?\d[\d.,]*(?<=\d)", "0", text).split())

    rates = {"norm=batch": 0.3, "norm=none": 0.7}
    sweep = write_sweep(tmp_path, rates, ablation={"factor": "norm", "baseline": "batch"})
    assert main([str(sweep), "--no-page"]) == 0
    tutorial = (REPOSITORY / "docs" / "tutorial.md").read_text(encoding="utf-8")
    (quoted,) = re.findall(r"^```\ntest-clean decides.*?\n\n(.*?)```", tutorial, re.MULTILINE | re.DOTALL)
    assert form(quoted.replace("test-clean", "test").replace("voices", "speakers")) in form(capsys.readouterr().out)


def test_a_test_set_that_steers_training_is_a_warning(tmp_path: Path) -> None:
    def named(run: Path) -> None:
        edit(run / "config.yaml", r"validation:\n( +)- dev", r"validation:\n\1- test")
        edit(run / "metrics.csv", "validation/dev/", "validation/test/")

    def copied(run: Path) -> None:
        """The validation set has the test set's recordings under another name."""
        write_json(run / "data.json", {"sets": {name: {"sha256": "the same"} for name in ("dev", "test")}})

    for number, (change, expected) in enumerate(((named, ["test"]), (copied, ["test"]), (None, []))):
        sweep = write_sweep(tmp_path / f"{number}", {"rnn=lstm": 0.1, "rnn=gru": 0.4}, seeds=1, change=change)
        warnings = compare_folders([sweep], Options()).warnings
        assert [line.split()[0] for line in warnings if "is also a validation set: it steers" in line] == expected


def test_a_planted_effect_is_shown_and_an_absent_effect_is_not(tmp_path: Path) -> None:
    """lstm and rnn alike, gru far worse; four seeds each."""
    ablation = {"factor": "rnn", "baseline": "lstm", "targets": [0.3, 0.01]}
    sweep = write_sweep(tmp_path, {"rnn=lstm": 0.1, "rnn=gru": 0.3, "rnn=rnn": 0.1}, seeds=4, ablation=ablation)
    comparison = compare_folders([sweep], Options())
    gru, rnn = comparison.verdicts
    assert (gru.arm, rnn.arm, comparison.baseline) == ("rnn=gru", "rnn=rnn", "rnn=lstm")
    assert (gru.outcome, rnn.outcome) == ("worse", "not shown")
    assert gru.sentence == (
        "rnn=gru is worse than rnn=lstm on test: 29.08 % against 9.85 % WER, a difference of +19.23 points "
        "(95 % interval +15.32 to +23.13). Student's t: p < 0.001, corrected for 2 comparisons; 4 seeds, 12 speakers."
    )
    assert re.fullmatch(
        r"No difference is shown between rnn=rnn and rnn=lstm on test: 9\.98 % and 9\.85 % WER, \+0\.13 points "
        r"\(95 % interval −[\d.]+ to \+[\d.]+\)\. A difference of [\d.]+ points would probably have been detected\. "
        r"Student's t: p = 0\.808, corrected for 2 comparisons; 4 seeds, 12 speakers\.",
        rnn.sentence,
    )
    differences, verdicts, *_ = sections(comparison)
    assert verdicts.lines == [gru.sentence, rnn.sentence]
    assert differences.rows[0][-2:] == ["+195.2 % (+134.7 to +271.2)", "worse"]
    # the numbers are those of the records
    rows = rate_rows(comparison, [*RATE_COLUMNS, *TRAINING_COLUMNS])
    for arm, row in zip(comparison.arms, rows, strict=True):
        assert row["wer"] == pytest.approx(sum(run.summary.sets["test"].wer for run in arm.runs) / 4)
        assert (row["arm"], row["n"], row["parameters"], row["steps"]) == (arm.name, 4, 1000, 25)
        assert [run.seed for run in arm.runs] == [0, 1, 2, 3]
    wer = {row["arm"]: row["wer"] for row in rows}
    assert gru.difference == pytest.approx(wer["rnn=gru"] - wer["rnn=lstm"])
    times = {(time.arm, time.target): time for time in times_to_accuracy(comparison)}
    time = times["rnn=lstm", 0.3]  # of 0.9 0.5 0.3 0.25 the median of the last three is 0.3 at the fourth
    assert (time.seconds, time.steps, time.audio_hours, time.epochs) == (40, 20, 2.0, 4)
    assert times["rnn=gru", 0.01].seconds is None
    assert {time.target for time in times_to_accuracy(compare_folders([sweep], Options(targets=[0.5])))} == {0.5}
    # another baseline turns the sign
    first = compare_folders([sweep], Options(metric="cer")).verdicts[0]
    turned = compare_folders([sweep], Options(metric="cer", baseline="gru")).verdicts[0]
    assert (first.arm, turned.arm) == ("rnn=gru", "rnn=lstm")
    assert (turned.difference, turned.p) == (pytest.approx(-first.difference), pytest.approx(first.p))
    assert turned.sentence.startswith("rnn=lstm is better than rnn=gru on test: ")
    assert f" % CER, a difference of −{-100 * turned.difference:.2f} points (" in turned.sentence


def test_equal_cost_is_the_most_that_all_have_spent_and_the_machine_has_a_price(tmp_path: Path) -> None:
    write_run(tmp_path, "rnn=lstm", "hardware.price_per_hour=3.6", curve=[0.9, 0.6, 0.4, 0.1])
    write_run(tmp_path, "rnn=gru", curve=[0.8, 0.7])
    comparison = compare_folders([tmp_path / "sweep"], Options(targets=[0.4]))
    rows = at_equal_cost(comparison.arms, comparison.design.metric)
    assert {(row["axis"], row["budget"]) for row in rows} == {("steps", 10), ("audio_hours", 1.0), ("seconds", 20)}
    assert {(row["arm"], row["mean"]) for row in rows} == {("rnn=lstm", 0.6), ("rnn=gru", 0.7)}
    cost = {time.arm: time.cost for time in times_to_accuracy(comparison)}
    assert cost == {"rnn=lstm": pytest.approx(40 * 3.6 / 3600), "rnn=gru": None}


def test_runs_of_other_code_are_named_by_seed_if_every_arm_has_them(tmp_path: Path) -> None:
    for choice, seed in itertools.product(("rnn=lstm", "rnn=gru"), range(3)):
        folder = write_run(tmp_path, choice, f"seed={seed}", noise=seed)
        edit(folder / "environment.json", "0123456789", "fedcba9876" if seed else "0123456789")
    (code,) = [line for line in compare_folders([tmp_path / "sweep"], Options()).warnings if "differ in code" in line]
    assert code.endswith("(01234567: seed 0 of every arm; fedcba98: seeds 1, 2 of every arm)")


def test_differing_code_and_hardware_give_a_warning_each(tmp_path: Path) -> None:
    def resumed(folder: Path) -> None:
        environment = json.loads((folder / "environment.json").read_text())
        code = {"commit": "abcdef9876543210", "dirty_diff": ""}
        other = {**environment, "hardware": {"gpus": ["H200"]}, "code": code}
        write_json(folder / "environment.json", {**environment, "resumed": [environment, other]})

    changes = {
        "rnn=lstm": resumed,
        "rnn=gru": lambda path: edit(path / "environment.json", "0123456789", "fedcba9876"),
        "rnn=rnn": lambda path: edit(path / "environment.json", '"gpus": .*', '"gpus": ["H"]'),
    }
    for noise, (choice, change) in enumerate(changes.items(), start=1):
        write_run(tmp_path, choice, noise=noise, seconds=None, change=change)
    comparison = compare_folders([tmp_path / "sweep"], Options(targets=[0.3]))
    (code,) = [line for line in comparison.warnings if "differ in code" in line]
    assert "fedcba98: rnn=gru/0" in code
    assert "01234567, then abcdef98: rnn=lstm/0" in code
    (hardware,) = [line for line in comparison.warnings if "times cannot be compared" in line]
    assert "1 × H: rnn=rnn/0" in hardware
    assert ", then 1 × H200: rnn=lstm/0" in hardware
    assert any("did not record times" in line for line in comparison.warnings)
    time = times_to_accuracy(comparison)[0]
    assert (time.seconds, time.steps, time.audio_hours) == (None, 20, 2.0)
