"""Records from the runs of W&B's API, with what the runs themselves had logged."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asr_ablations.comparison.comparison import compare_runs
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.wandb_runs import evidence_of, fetch, from_runs, to_record
from asr_ablations.config.option_names import plain_config
from asr_ablations.runs.record import as_json
from asr_ablations.runs.sweep_history import evidence
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write_csv
from tests.helpers.invented_records import record
from tests.helpers.support import compose


def api_run(name: str, rate: float, seed: int, state: str = "finished", job_type: str = "train") -> Any:
    """The part of wandb.apis.public.Run that is read."""
    from omegaconf import OmegaConf

    overrides = ["data=an4", "data.root=x", f"rnn={name}", f"seed={seed}"]
    config: Any = OmegaConf.to_container(compose(*overrides), resolve=True)
    history = [
        {"_step": 0, "epoch": 0, "trainer/global_step": 9, "validation/dev/wer": 0.5},
        {"_step": 1, "epoch": 1, "trainer/global_step": 19, "validation/dev/wer": 0.3},
        {"_step": 2, "final/dev/wer": 0.3, "final/test/wer": rate, "final/test/cer": rate / 3},
        {"_step": 3, "examples": {"_type": "table-file"}},
    ]
    config["overrides"] = overrides
    logged = {**plain_config(config), "identity": "x"}
    return SimpleNamespace(
        id=f"{name}{seed}", name=name, config=logged, state=state, job_type=job_type,
        scan_history=lambda: history, logged_artifacts=list,
    )  # fmt: skip


def test_a_run_of_the_api_becomes_a_record() -> None:
    run = to_record(api_run("gru", 0.2, 1))
    assert run.seed == 1
    assert as_json(run.summary.sets["test"]) == {"wer": 0.2, "cer": pytest.approx(0.2 / 3), "loss": None}
    assert (run.summary.test_sets, run.summary.best_validation_wer, run.summary.epochs) == (["test"], 0.3, 2)
    assert [row["step"] for row in run.metrics[:2]] == [9, 19]


def test_without_utterances_the_verdict_rests_on_seeds() -> None:
    rates = {"gru": (0.30, 0.31, 0.32), "lstm": (0.10, 0.11, 0.12)}
    records = from_runs([api_run(name, rate, seed) for name, all_ in rates.items() for seed, rate in enumerate(all_)])
    comparison = compare_runs(records, Options(baseline="lstm"), "group")
    (verdict,) = comparison.verdicts
    assert any("not known" in line and "behaviour" in line for line in comparison.warnings)
    assert verdict.contrast.estimate is not None
    assert verdict.contrast.estimate.over_speakers is None
    assert "speakers left out, since there are no utterances" in verdict.sentence
    assert verdict.sentence.startswith("gru is worse than lstm on test: +20.00 WER (")


def test_runs_that_did_not_finish_are_named() -> None:
    records = from_runs([api_run("gru", 0.1, 0), api_run("lstm", 0.2, 0, state="crashed")])
    assert [(run.state, run.reason, run.config and run.config["seed"]) for run in records.unfinished] == [
        ("failed", "crashed", 0)
    ]
    assert len(records.runs) == 1


@pytest.mark.parametrize("path", ["", "project", "entity/project", "a/b/c/d", "a//c"])
def test_a_path_needs_three_parts(path: str) -> None:
    with pytest.raises(UsageError, match="entity/project/group"):
        fetch(path)


def test_a_plain_config_is_read_as_the_folder_has_it() -> None:
    run = to_record(api_run("gru", 0.2, 1))
    assert run.config["rnn"]["_target_"].endswith(".GRU")
    assert run.config["optimizer"]["lr"] == compose().optimizer.lr
    assert run.config["batch"]["size"] == compose("data=an4", "data.root=x").batch.size


def test_evaluations_and_comparisons_are_no_arms() -> None:
    others = [api_run("lstm", 0.1, seed, job_type=kind) for seed, kind in enumerate(("comparison", "evaluation"))]
    records = from_runs([api_run("gru", 0.2, 0), *others])
    assert [run.folder.name for run in records.runs] == ["gru"]
    assert records.unfinished == []


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
    assert not [line for line in from_runs([run]).warnings if "seeds alone" in line]


@pytest.mark.parametrize(
    ("states", "procedure"),
    [(("finished", "finished"), "fixed"), (("finished", "crashed"), "anytime"), (("finished",), "anytime")],
)
def test_what_was_declared_gets_the_test_that_the_folders_have(states: tuple[str, ...], procedure: str) -> None:
    runs = [api_run("gru", 0.2, seed, state) for seed, state in enumerate(states)]
    for run in runs:
        run.config |= {"identity": f"id{run.config['seed']}", "declared": [2, evidence(["id0", "id1"])]}
    assert evidence_of(runs, from_runs(runs)).procedure.name == procedure


def test_without_a_declaration_any_number_of_looks_is_reckoned_with() -> None:
    runs = [api_run("gru", 0.2, 0)]
    assert evidence_of(runs, from_runs(runs)).procedure.name == "anytime"


def test_runs_are_in_the_order_of_their_starts() -> None:
    runs = [api_run(name, 0.2, 0) for name in ("gru", "lstm")]
    for run, started in zip(runs, ("2026-01-02", "2026-01-01"), strict=True):
        run.config["started"] = started
    assert [run.folder.name for run in from_runs(runs).runs] == ["lstm", "gru"]
