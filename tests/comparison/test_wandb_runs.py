"""Records from the runs of W&B's API, with what the runs themselves had logged."""

from types import SimpleNamespace
from typing import Any

import pytest

from asr_ablations.comparison.comparison import compare_runs
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.wandb_runs import fetch, from_runs, to_record
from asr_ablations.tools.errors import UsageError
from tests.helpers.support import compose


def api_run(name: str, rate: float, seed: int, state: str = "finished") -> Any:
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
    return SimpleNamespace(id=f"{name}{seed}", name=name, config=config, state=state, scan_history=lambda: history)


def test_a_run_of_the_api_becomes_a_record() -> None:
    run = to_record(api_run("gru", 0.2, 1))
    assert run.seed == 1
    assert run.summary["sets"]["test"] == {"wer": 0.2, "cer": pytest.approx(0.2 / 3)}
    assert (run.summary["test_sets"], run.summary["best_validation_wer"], run.summary["epochs"]) == (["test"], 0.3, 2)
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
