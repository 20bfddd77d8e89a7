"""Rules that end a training early: when they do, in figures and in real runs; a resumed run ends there, too."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asr_ablations.experiment import run as experiment
from asr_ablations.experiment.fit import TrainingRun
from asr_ablations.runs.metrics_files import FIGURES
from asr_ablations.runs.reader import read_metrics
from asr_ablations.tools.errors import UsageError
from tests.helpers.run_results import results, same
from tests.helpers.support import component, compose, tiny_overrides

NEVER_LOWER = ("stopping=patience", "stopping.patience=2", "stopping.threshold=99")
"""The first epoch is the lowest, and no other is so much lower: the third is the last."""


def config(corpus: Path, outputs: Path, *more: str) -> Any:
    small = ["width=8", "layers=1", "gpus=0", "logger=csv", "max_epochs=5", "sweep=s"]
    return compose(*tiny_overrides(corpus), *small, f"outputs={outputs}", *more)


def last_epoch(figures: list[float], **keys: Any) -> int:
    """The epoch, counted from 1, after which a training with these figures ends; 0 where it goes on."""
    rule = component("stopping", "patience", **keys)
    module: Any = SimpleNamespace(validation_sets=["dev", "other"])
    for epoch, figure in enumerate(figures, start=1):
        trainer: Any = SimpleNamespace(callback_metrics={"validation/dev/loss": figure}, should_stop=False)
        rule.on_train_epoch_end(trainer, module)
        if trainer.should_stop:
            return epoch
    return 0


@pytest.mark.parametrize(
    ("figures", "keys", "end"),
    [
        ([3.0, 2.0, 2.5, 1.9, 1.95, 1.9], {"patience": 2}, 6),  # as low as the lowest is not lower
        ([3.0, 2.0, 2.5, 1.9, 1.95, 1.8], {"patience": 2}, 0),
        ([3.0, 2.0, 2.5], {"patience": 1}, 3),
        ([3.0, 2.9, 2.8, 2.7], {"patience": 3, "threshold": 0.5}, 4),  # each is little lower
        ([3.0, 2.6, 2.4, 2.2], {"patience": 3, "threshold": 0.5}, 0),  # the third is, than the lowest that counted
        ([float("nan"), 2.0, float("nan"), float("nan")], {"patience": 2}, 4),
        ([float("inf")] * 3, {"patience": 3}, 3),
    ],
)
def test_it_ends_after_so_many_epochs_in_a_row_without_a_lower_figure(
    figures: list[float], keys: dict[str, Any], end: int
) -> None:
    assert last_epoch(figures, **keys) == end


@pytest.mark.parametrize("monitor", FIGURES)
def test_a_run_ends_and_is_evaluated(monitor: str, tiny_corpus: Path, tmp_path: Path) -> None:
    folder = experiment.run(config(tiny_corpus, tmp_path, *NEVER_LOWER, f"stopping.monitor={monitor}"))
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["epochs"] == 3
    assert summary["sets"]["test"]["wer"] >= 0
    assert len([row for row in read_metrics(folder) if row.get(f"validation/dev/{monitor}") is not None]) == 3


def test_a_run_that_was_killed_between_its_end_and_its_evaluation_trains_no_further(
    tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = experiment.run(config(tiny_corpus, tmp_path / "undisturbed", *NEVER_LOWER))
    cfg = config(tiny_corpus, tmp_path / "killed", *NEVER_LOWER)

    def fail(run: Any) -> None:
        raise RuntimeError("the machine is gone")

    with monkeypatch.context() as patched:
        patched.setattr(TrainingRun, "_evaluate", fail)
        with pytest.raises(RuntimeError, match="the machine is gone"):
            experiment.run(cfg)
    result, expected = results(experiment.run(cfg)), results(undisturbed)
    assert [key for key in expected if not same(result[key], expected[key])] == []


@pytest.mark.parametrize(("key", "value"), [("monitor", "ter"), ("patience", 0), ("threshold", -0.1)])
def test_a_wrong_value_is_refused(key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"stopping\.{key}={value}: expected"):
        component("stopping", "patience", **{key: value})
