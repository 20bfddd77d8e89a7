"""Arms: declared, listed, identical, described, with their noise; how often their runs were looked at."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from asr_ablations.comparison import folders
from asr_ablations.comparison.folders import SweepsBeside, compare_folders, gather, lay_out
from asr_ablations.report.training_report import report_comparison
from asr_ablations.runs.reader import read_summary
from asr_ablations.runs.sweep_history import Look, evidence, looks, record_look
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.confounds import ConfoundedError
from asr_verdicts.declaration import Declaration, parse
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.evidence import UNDECLARED
from asr_verdicts.files import write_json
from asr_verdicts.one_arm import descriptions, one_arm
from asr_verdicts.record import Record, Records
from asr_verdicts.report.formats import markdown
from asr_verdicts.scales import POINTS
from tests.helpers.invented_records import record, records
from tests.helpers.planned import plan, run
from tests.helpers.run_folders import declare, write_run, write_sweep

SHARED = "seeds.order=1000 shares {} of 5 runs with seeds.order=null (same config and results): counted for"


@pytest.mark.parametrize(
    ("choice", "rate", "noises", "counted", "warning"),
    [
        ("seeds.order=1000", 0.4, [7, 5, 1, 8, 9], [0, 3, 4], SHARED.format(2)),
        ("seeds.order=1000", 0.4, [1, 2, 3, 4, 6], None, SHARED.format(4)),
        ("seeds.order=1000", 0.4, [6, 7, 8, 9, 10], [0, 1, 2, 3, 4], ""),
        ("seeds.order=1000", 0.0, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4], ""),  # no error: equal without being one training
        ("schedule=newbob", 0.4, [1, 7, 8, 9, 10], [0, 1, 2, 3, 4],
         "with the same seed (0; 1 of 5 runs): their difference did nothing in these runs"),
    ],
)  # fmt: skip
def test_a_training_that_two_arms_share_counts_once(
    tmp_path: Path, choice: str, rate: float, noises: list[int], counted: list[int] | None, warning: str
) -> None:
    """Five runs of the defaults and five of another arm; runs with equal noise made the same errors."""
    factor = choice.partition("=")[0]
    ablation = {"factor": factor, "baseline": {"schedule": "one_cycle", "seeds.order": "null"}[factor]}
    base, own = (
        [
            read_summary(write_run(tmp_path, *words, f"seed={seed}", rate=rate, noise=noise, ablation=ablation))
            for seed, noise in enumerate(of_arm)
        ]
        for words, of_arm in (([], [1, 2, 3, 4, 5]), ([choice], noises))
    )
    comparison = compare_folders([tmp_path / "sweep"], Options())
    (contrast,) = (verdict for verdict in comparison.answer)
    said = [line for line in comparison.warnings if "shares" in line or "identical" in line]
    assert [warning in line for line in said] == [True] * bool(warning)
    if counted is None:
        assert contrast.outcome == "undecided"
        assert contrast.reason.endswith("of 5 runs with seeds.order=null, and too few are left")
        return
    assert contrast.seeds == {contrast.baseline: 5, contrast.arm: len(counted)}
    rates = [np.mean([run.sets["test"].wer for run in runs]) for runs in ([own[seed] for seed in counted], base)]
    assert contrast.difference == pytest.approx(rates[0] - rates[1], abs=1e-12)


ARMS: list[dict[str, Any]] = [{}, {"name": "− norm", "norm": "none"}, {"rnn": "gru", "width": 256}]
FULL = "norm=batch rnn=lstm width=128 batch=8"


def listed_arm(
    name: str | None, rate: float, *changes: str, seeds: int = 3, arms: Any = ARMS, **more: Any
) -> list[Record]:
    keys = dict(word.split("=") for word in FULL.split()) | dict(word.split("=") for word in changes)
    words = " ".join(f"{key}={value}" for key, value in keys.items())
    runs = [record(words, seed, rate, arms=arms, **more) for seed in range(seeds)]
    for one in runs:
        one.config["arm"] = name
    return runs


def classic(**more: Any) -> list[Record]:
    return [
        *listed_arm("rnn=gru, width=256", 0.2, "rnn=gru", "width=256", **more),
        *listed_arm("full", 0.2, **more),
        *listed_arm("− norm", 0.5, "norm=none", **more),
    ]


def compared(runs: list[Record], **options: Any) -> Comparison:
    listed, chosen = records(runs), Options(**options)
    return compare(listed, chosen, "classic", layout=lay_out(listed, chosen, None))


def test_every_arm_is_held_against_the_full_model_in_the_order_of_the_list() -> None:
    comparison = compared(classic())
    assert [listed_arm.name for listed_arm in comparison.arms] == ["full", "− norm", "rnn=gru, width=256"]
    assert comparison.baseline == "full"
    assert [(verdict.arm, verdict.baseline) for verdict in comparison.answer] == [
        ("− norm", "full"),
        ("rnn=gru, width=256", "full"),
    ]
    assert comparison.answer[0].difference == pytest.approx(0.3, abs=0.02)
    assert compared(classic(ablation={"baseline": "− norm"})).baseline == "− norm"
    chosen = compared(classic(), baseline="− norm")
    assert chosen.baseline == "− norm"
    assert any("all pairs of arms" in line for line in chosen.warnings)
    page = markdown(report_comparison(comparison))
    assert "| − norm | norm=none |" in page
    assert "| full | nothing |" in page


def test_a_further_key_is_refused_with_its_arm() -> None:
    """The width is in the list, but not in this arm."""
    runs = [*listed_arm("full", 0.2), *listed_arm("− norm", 0.3, "norm=none", "width=256")]
    with pytest.raises(
        ConfoundedError, match=r"^the arm − norm differs from full .* \(norm\):\n  width: 128, 256"
    ) as no:
        compared(runs)
    assert no.value.keys == {"width": ["128", "256"]}
    assert list(compared(runs, allow=["width"]).design.layout.overruled) == ["width"]


def test_what_is_varied_beside_the_list_is_declared_and_crossed() -> None:
    runs = [
        run
        for batch in (8, 16)
        for run in (
            *listed_arm("full", 0.2, f"batch={batch}"),
            *listed_arm("− norm", 0.4, "norm=none", f"batch={batch}"),
        )
    ]
    with pytest.raises(ConfoundedError, match="batch: 8, 16"):
        compared(runs)
    for one in runs:
        one.config["ablation"] = {"factor": "batch", "baseline": "full, batch=8"}
    comparison = compared(runs)
    assert comparison.design.layout.factor == ["arm", "batch"]
    kinds = {verdict.question.kind for verdict in comparison.answer}
    assert kinds == {"main effect", "simple effect", "interaction"}


def test_a_run_of_no_arm_is_left_out_and_named() -> None:
    stranger = listed_arm(None, 0.9, "rnn=rnn", seeds=1)
    comparison = compared([*classic(), *stranger])
    assert len(comparison.arms) == 3
    assert any(f"left out {stranger[0].folder.name}: it does not belong" in line for line in comparison.warnings)


def test_arms_with_the_same_results_in_every_seed_are_named(tmp_path: Path) -> None:
    for schedule, noises in {"constant": [1, 2], "newbob": [1, 2], "one_cycle": [3, 4], "exponential": [1, 2]}.items():
        curve = [0.9, 0.6, 0.4, 0.25, 0.2] if schedule == "exponential" else None  # validations that differ are enough
        for seed, noise in enumerate(noises):
            ablation = {"factor": "schedule", "baseline": "constant"}
            write_run(tmp_path, f"schedule={schedule}", f"seed={seed}", noise=noise, curve=curve, ablation=ablation)
    comparison = compare_folders([tmp_path / "sweep"], Options())
    assert [line for line in comparison.warnings if "have identical results" in line] == [
        "schedule=constant and schedule=newbob have identical results with the same seed (0, 1): their difference did "
        "nothing in these runs"
    ]
    said = "have identical hypotheses: they are copies, or the change did nothing."
    assert {verdict.arm for verdict in comparison.answer if verdict.sentence.endswith(said)} >= {"schedule=newbob"}


def test_one_arm_has_mean_deviation_and_its_interval_best_and_worst(tmp_path: Path) -> None:
    """The interval of the deviation by chi-square with n − 1 degrees of freedom."""
    ablation = {"question": "How much is chance?", "factor": "seed"}
    described = compare_folders([write_sweep(tmp_path, {"rnn=lstm": 0.2}, seeds=5, ablation=ablation)], Options())
    assert [arm.name for arm in described.arms] == ["all"]
    assert one_arm(described.arms)
    assert described.verdicts == []
    by_name = {(each.metric.name, each.set): each.spread for each in descriptions(described)}
    metrics = ("wer", "cer", "cer_longer", "loss")
    assert list(by_name) == [(metric, name) for metric in metrics for name in ("dev", "test")]
    for (metric, name), spread in by_name.items():
        values = [run.value(name, metric) for run in described.runs]
        deviation = np.std(values, ddof=1)
        low, high = (deviation * (4 / stats.chi2.isf(tail, 4)) ** 0.5 for tail in (0.025, 0.975))
        assert (spread.runs, spread.best, spread.worst) == (5, min(values), max(values))
        assert spread.mean == pytest.approx(np.mean(values))
        assert (spread.deviation.value, spread.deviation.low, spread.deviation.high) == pytest.approx(
            (deviation, low, high)
        )


def test_a_declaration_is_read_whole_or_refused() -> None:
    node = {
        "question": "?", "source": "Shi2016 §4", "claim": "yes", "factor": ["order", "norm"], "baseline": 256,
        "set": "test", "metric": "loss", "contrasts": "factorial", "targets": [0.2],
    }  # fmt: skip
    assert parse(node) == Declaration(
        "?", "Shi2016 §4", ["order", "norm"], "256", "test", "loss", ["factorial"], POINTS, None, None, [0.2],
    )  # fmt: skip
    assert parse({"factor": "rnn", "baseline": None}) == Declaration(factor=["rnn"])
    wrong: list[tuple[object, str]] = [
        ({"facto": "rnn"}, "ablation=facto: expected one of question, source"),
        ("rnn", "ablation=rnn: expected keys"),
        ({"targets": ["low"]}, r"ablation\.targets=\['low'\]: expected rates"),
    ]
    for declared, message in wrong:
        with pytest.raises(UsageError, match=message):
            parse(declared)


RATES = {"rnn=lstm": 0.1, "rnn=gru": 0.3}


def procedure(sweep: Path, **options: object) -> str:
    (contrast,) = compare_folders([sweep], Options(**options)).verdicts  # type: ignore[arg-type]
    return contrast.procedure.name


def test_a_sweep_that_ran_as_declared_is_tested_once_and_undeclared_runs_at_any_time(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    assert [procedure(sweep), procedure(sweep)] == ["fixed", "fixed"]
    (look,) = looks(sweep)
    assert (look.arms, look.complete, look.set) == ({"rnn=gru": 3, "rnn=lstm": 3}, True, "test")
    comparison = compare_folders([write_sweep(tmp_path / "undeclared", RATES, declared=False)], Options())
    assert comparison.evidence.procedure.name == "anytime"
    assert "was not declared before the runs" in comparison.evidence.reason


def test_a_look_at_a_part_costs_the_fixed_test_for_good(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    late = next(path for path in sweep.glob("*seed-2*") if path.is_dir())
    (late / "status.json").rename(tmp_path / "kept")
    early = compare_folders([sweep], Options())
    assert early.evidence.procedure.name == "anytime"
    assert "1 of 6 declared runs have not ended" in early.evidence.reason
    (tmp_path / "kept").rename(late / "status.json")
    final = compare_folders([sweep], Options())
    assert final.evidence.procedure.name == "anytime"
    assert (final.evidence.look, final.evidence.reason) == (2, "there were earlier looks, at other runs (1)")


def test_runs_that_were_added_later_were_not_declared(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path, RATES)
    first = [path.parent for path in sorted(sweep.glob("*/status.json"))]
    assert procedure(sweep) == "fixed"
    more = [write_run(tmp_path, choice, "seed=3", rate=0.2, noise=99) for choice in RATES]
    declare(sweep, first, more)
    comparison = compare_folders([sweep], Options())
    assert comparison.evidence.procedure.name == "anytime"
    assert "runs were added after the first launch" in comparison.evidence.reason
    assert comparison.evidence.look == 2


def test_models_that_are_added_to_evaluations_after_a_look_are_a_further_look(tmp_path: Path) -> None:
    """Decoders of one model may be compared at any time; more models after a look are growing data."""
    folder = tmp_path / "run" / "evaluations"
    folder.mkdir(parents=True)
    runs = [
        replace(record("decoder=a", seed, 0.2), model=f"model-{seed}/last.ckpt", config={"seed": seed, "decoder": name})
        for seed in (0, 1) for name in ("a", "b")
    ]  # fmt: skip
    first = gather([folder], Records(runs[:2]))
    assert first.procedure.name == "fixed"
    seen = evidence({run.model for run in runs[:2]})
    look = Look("now", {"a": 1, "b": 1}, seen, first.complete, "a", "wer", "test", "fixed")
    assert record_look(folder, look) is None
    assert gather([folder], Records(runs[:2])).procedure.name == "fixed"
    assert gather([folder], Records(runs)).procedure.name == "anytime"


def test_models_that_a_later_launch_added_are_evaluated_at_any_time(tmp_path: Path) -> None:
    """The errors in noise are much like those without, at which the user may have looked before adding seeds."""
    folder = tmp_path / "run" / "evaluations"
    folder.mkdir(parents=True)
    runs = Records([replace(record("rnn=lstm", seed, 0.2), model=f"{seed}/last.ckpt") for seed in (0, 1)])
    for launched, test in (("01",), "fixed"), (("0", "1"), "anytime"), (("01", ""), "fixed"), ((), "fixed"):
        launches = [{"arms": [*arms], "search": False, "started": "", "command": []} for arms in launched]
        write_json(tmp_path / "sweep.json", {"launches": launches})
        assert gather([folder], runs).procedure.name == test
    write_json(tmp_path / "sweep.json", {"launches": launches, "plan": plan(["lstm", "gru"]).as_json()})
    assert gather([folder], runs).procedure.name == "anytime"


def test_a_planned_look_is_not_recorded_as_a_peek(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with another question than the plan's is."""
    runs = [run(name, seed) for name in ("lstm", "gru") for seed in range(3)]
    monkeypatch.setattr(folders, "load", lambda _: records(runs))
    write_json(tmp_path / "sweep.json", {"plan": plan(["lstm", "gru"]).as_json()})
    assert compare_folders([tmp_path], Options()).evidence.procedure.name == "sequential"
    assert looks(tmp_path) == []
    assert compare_folders([tmp_path], Options(baseline="gru")).evidence.procedure.name == "anytime"
    assert [look.baseline for look in looks(tmp_path)] == ["rnn=gru"]


def test_sweeps_that_share_a_baseline_are_named(tmp_path: Path) -> None:
    for sweep in ("one", "two", "three"):
        (tmp_path / sweep).mkdir()
    (tmp_path / "one" / "rnn=lstm-0").mkdir()
    runs = records([record("rnn=lstm", seed, 0.2) for seed in range(2)])

    def warnings() -> list[str]:
        history = SweepsBeside(tmp_path / "one")
        shown = compare(runs, Options(), "one", replace(UNDECLARED, history=history)).warnings
        return [line for line in shown if "shared" in line]

    assert warnings() == []
    (tmp_path / "two" / "rnn=lstm-0").symlink_to(tmp_path / "one" / "rnn=lstm-0")
    (warning,) = warnings()
    assert "runs of the baseline all are shared with 1 other sweep (two)" in warning
