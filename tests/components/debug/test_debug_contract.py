"""Shortened runs that find mistakes: what is left of the data, and what they say."""

import json
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.config.build import build
from asr_ablations.experiment import run as experiment
from asr_ablations.tools.errors import UsageError
from asr_ablations.training.assembly import assemble
from tests.helpers.support import component, compose, tiny_overrides

SMALL = ("width=8", "layers=1", "gpus=0", "logger=csv", "sweep=s")


def ran(corpus: Path, outputs: Path, *more: str) -> tuple[Path, Any]:
    folder = experiment.run(compose(*tiny_overrides(corpus), *SMALL, f"outputs={outputs}", *more))
    return folder, json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize(
    ("overrides", "utterances"),
    [(["batch.size=2"], 4), (["batch.size=null", "batch.seconds=2"], 0)],
)
def test_fast_takes_some_batches_of_every_set(overrides: list[str], utterances: int, tiny_corpus: Path) -> None:
    """As many utterances as two batches hold; of seconds, as much audio as that at the most."""
    cfg = compose(*tiny_overrides(tiny_corpus), *SMALL, "debug=fast", "debug.batches=2", *overrides)
    _, data = assemble(cfg, build(cfg.data))
    data.setup()
    assert cfg.max_epochs == 1
    for name in ("train", "dev"):
        speech = data.sets[name]
        if utterances:
            assert len(speech) == utterances
        else:
            assert 0 < speech.durations.sum() <= 4
            assert len(speech) < len(data.screened[name].kept)


def test_overfit_ends_when_the_batch_is_learnt_and_says_so(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A CER of less than 10 is reached at once."""
    _, summary = ran(tiny_corpus, tmp_path, "debug=overfit", "debug.cer=10", "max_epochs=4")
    assert (summary["epochs"], summary["steps"], summary["train_utterances"]) == (1, 1, 4)
    assert "learnt: CER" in capsys.readouterr().out


def test_overfit_says_how_far_it_got(tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, summary = ran(tiny_corpus, tmp_path, "debug=overfit", "max_epochs=2")
    assert summary["epochs"] == 2
    assert "not learnt: CER 1" in capsys.readouterr().out


def test_profile_leaves_a_table_and_a_trace_of_its_steps(tiny_corpus: Path, tmp_path: Path) -> None:
    folder, summary = ran(tiny_corpus, tmp_path, "debug=profile", "debug.wait=1", "debug.steps=1", "batch.size=2")
    assert summary["train_utterances"] == 4
    assert "aten::convolution" in (folder / "profile.txt").read_text()
    trace = json.loads((folder / "profile.json").read_text())
    steps = [event for event in trace["traceEvents"] if event.get("name", "").startswith("Optimizer.step#")]
    assert len(steps) == 1


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("fast", "batches", 0), ("overfit", "cer", -1), ("profile", "wait", -1), ("profile", "steps", 0)],
)
def test_a_wrong_value_is_refused(name: str, key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"debug\.{key}={value}: expected"):
        component("debug", name, **{key: value})(None)
