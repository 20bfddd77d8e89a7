"""Lightning callbacks of a run's own choice."""

import csv
from pathlib import Path

import pytest

from asr_ablations.components.logger.plain_config import plain_config
from asr_ablations.config import targets
from asr_ablations.config.build import check_targets
from asr_ablations.config.compose import compose
from asr_ablations.runs.identity import identity
from asr_ablations.sweep.live import label_arms
from asr_ablations.sweep.preflight import ComposedRun, plain
from asr_ablations.training.assembly import build_callbacks
from asr_verdicts.arms import choice_of
from asr_verdicts.errors import UsageError
from tests.helpers.fits import fit
from tests.helpers.support import CONF


@pytest.mark.slow
def test_the_norms_of_each_layer_are_logged_after_every_epoch(tiny_corpus: Path, tmp_path: Path) -> None:
    task = fit(tiny_corpus, tmp_path, "callbacks=weight_norms", "callbacks.weight_norms.depth=1", "max_epochs=2")
    rows = csv.DictReader((tmp_path / "metrics.csv").read_text().splitlines())
    logged = [{key: value for key, value in row.items() if key.startswith("weight_norm/") and value} for row in rows]
    _, table = filter(None, logged)  # one row per epoch
    parts = {name.partition(".")[0] for name, _ in task.model.named_parameters()}
    assert {name.removeprefix("weight_norm/") for name in table} == parts
    for part in parts:
        squares = sum(
            float((p.detach() ** 2).sum()) for name, p in task.model.named_parameters() if name.startswith(part)
        )
        assert float(table[f"weight_norm/{part}"]) == pytest.approx(squares**0.5, rel=1e-5)


def test_own_callbacks_run_in_order_and_their_source_is_part_of_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for cached in (targets.read_allowed, targets.options_by_name, targets.contents_by_name):
        cached.cache_clear()
        request.addfinalizer(cached.cache_clear)
    (tmp_path / "conf/callbacks").mkdir(parents=True)
    (tmp_path / "conf/callbacks/mine.yaml").write_text("_target_: own_callback.Mine\nevery: 5\n")
    source, own = tmp_path / "own_callback.py", "import pytorch_lightning as pl\nclass Mine(pl.Callback):\n"
    own += "    def __init__(self, every): self.every = every\n"
    source.write_text(own)
    monkeypatch.setenv(targets.FOLDERS, str(tmp_path / "conf"))
    monkeypatch.syspath_prepend(str(tmp_path))

    words = ("callbacks=[mine,weight_norms]", "callbacks.mine.every=7")
    cfg = compose(CONF, ["overrides=[]", *words], name="config", folder=None)
    check_targets(cfg)
    mine, norms = build_callbacks(cfg).own
    assert (type(mine).__name__, mine.every, type(norms).__name__) == ("Mine", 7, "WeightNorms")  # type: ignore[attr-defined]
    source.write_text(f"{own}\n# an edit\n")
    other = compose(CONF, ["overrides=[]", *words], name="config", folder=None)
    check_targets(other)
    assert identity(cfg) != identity(other)
    without = [compose(CONF, ["overrides=[]", *more], name="config", folder=None) for more in ([], ["callbacks=none"])]
    assert identity(without[0]) == identity(without[1])


def test_an_arm_is_named_by_its_callbacks_and_an_unknown_one_refused() -> None:
    for word in ("default", "5"):
        with pytest.raises(UsageError, match=f"callbacks={word}: expected weight_norms"):
            compose(CONF, [f"callbacks={word}"], name="config", folder=None)
    for words, name in (([], "none"), (["callbacks=weight_norms"], "weight_norms")):
        cfg = compose(CONF, ["overrides=[]", *words], name="config", folder=None)
        assert choice_of(ComposedRun(plain(cfg), list(cfg.overrides)), "callbacks") == name
        assert plain_config(plain(cfg))["callbacks"] == name
    on = "+callbacks@callbacks.weight_norms=weight_norms"
    assert label_arms([["seed=0"], [on, "seed=0"]]) == ["default", "callbacks=weight_norms"]
