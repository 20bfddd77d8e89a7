"""Metrics of runs, and runs of W&B."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.comparison.time_to_accuracy import times_to_accuracy
from asr_ablations.comparison.wandb_runs import evidence_of, fetch, from_runs, to_record
from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.data.utterances import Utterance
from asr_ablations.experiment.utterances import utterance_row
from asr_ablations.report.training_report import TRAINING_COLUMNS
from asr_ablations.runs.reader import read_config, read_utterances
from asr_ablations.runs.sweep_history import evidence
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.comparison import compare
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write_csv, write_json
from asr_verdicts.metrics import LOSS, find_metric
from asr_verdicts.record import rates
from asr_verdicts.table_columns import RATE_COLUMNS, rate_rows
from tests.helpers.invented_records import record
from tests.helpers.run_folders import write_run, write_sweep
from tests.helpers.support import compose


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
