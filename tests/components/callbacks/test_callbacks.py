"""Lightning callbacks of a run's own choice."""

from pathlib import Path

import pandas
import pytest

from asr_ablations.config.build import check_targets
from asr_ablations.config.targets import FOLDERS
from asr_ablations.runs.identity import identity, short_name
from asr_ablations.training.assembly import build_callbacks
from asr_verdicts.errors import UsageError
from tests.helpers.fits import fit
from tests.helpers.support import composed_by_hydra


@pytest.mark.slow
def test_the_norms_of_each_layer_are_logged_after_every_epoch(tiny_corpus: Path, tmp_path: Path) -> None:
    task = fit(tiny_corpus, tmp_path, "callbacks=weight_norms", "callbacks.weight_norms.depth=1", "max_epochs=2")
    table = pandas.read_csv(tmp_path / "metrics.csv").filter(like="weight_norm/").dropna()
    assert len(table) == 2
    parts = {name.partition(".")[0] for name, _ in task.model.named_parameters()}
    assert {name.removeprefix("weight_norm/") for name in table} == parts
    for part in parts:
        squares = sum(
            float((p.detach() ** 2).sum()) for name, p in task.model.named_parameters() if name.startswith(part)
        )
        assert table[f"weight_norm/{part}"].iloc[-1] == pytest.approx(squares**0.5, rel=1e-5)


OWN = """import pytorch_lightning as pl
class Mine(pl.Callback):
    def __init__(self, *, every): self.every = every
"""


def test_own_callbacks_run_in_order_and_their_source_is_part_of_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf/callbacks").mkdir(parents=True)
    (tmp_path / "conf/callbacks/mine.yaml").write_text("_target_: own_callback.Mine\nevery: 5\n")
    source = tmp_path / "own_callback.py"
    source.write_text(OWN)
    monkeypatch.setenv(FOLDERS, str(tmp_path / "conf"))
    monkeypatch.syspath_prepend(str(tmp_path))

    words = ("callbacks=[mine,weight_norms]", "callbacks.mine.every=7")
    cfg = composed_by_hydra(words)
    check_targets(cfg)
    mine, norms = build_callbacks(cfg).own
    assert (type(mine).__name__, mine.every, type(norms).__name__) == ("Mine", 7, "WeightNorms")  # type: ignore[attr-defined]
    source.write_text(f"{OWN}\n# an edit\n")
    other = composed_by_hydra(words)
    check_targets(other)
    assert identity(cfg) != identity(other)
    assert identity(composed_by_hydra(("callbacks=none",))) == identity(composed_by_hydra(()))


def test_a_run_is_named_by_its_callbacks() -> None:
    assert short_name(["+callbacks@callbacks.mine=mine", "seed=1"]) == "callbacks-mine+seed-1"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("callbacks=[default]", "callbacks=default: expected weight_norms"),
        ("callbacks=5", "callbacks=5: expected weight_norms"),
    ],
)
def test_an_unknown_callback_is_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        composed_by_hydra((word,))
