"""Precisions, and ranks."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import PRECISIONS
from asr_ablations.data.batch import Batch
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.training.assembly import assemble
from asr_ablations.training.precision import notice, set_tf32
from tests.helpers.fits import SMALL, fit
from tests.helpers.ranks import run_ranks
from tests.helpers.support import REPOSITORY, compose, tiny_overrides

CPU_TYPES = {
    32: (torch.float32, torch.float32, torch.float32),
    16: (torch.float32, torch.bfloat16, torch.float32),
    "bf16": (torch.float32, torch.bfloat16, torch.float32),
    "16-master": (torch.float32, torch.bfloat16, torch.bfloat16),
    "16-true": (torch.float16, torch.float16, torch.float16),
    "bf16-true": (torch.bfloat16, torch.bfloat16, torch.bfloat16),
}
"""Types of the weights, of a convolution's output and of a recurrent layer's output, on a CPU."""


class Types(pl.Callback):
    """The types that a training step works in."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.seen: dict[str, torch.dtype] = {}
        layers = {
            "convolution": pl_module.model.convolutions[0].convolve, "recurrent": pl_module.model.recurrent[0].forwards,
        }  # fmt: skip
        for name, layer in layers.items():
            layer.register_forward_hook(lambda m, i, o, name=name: self.seen.update({name: o.dtype}))
        pl_module.features.register_forward_hook(lambda m, i, o: self.seen.update(features=o[0].dtype))
        given = pl_module.loss

        def loss(log_probs: torch.Tensor, *rest: Any) -> torch.Tensor:
            self.seen["loss"] = log_probs.dtype
            return given(log_probs, *rest)

        loss.frame_rates, loss.weight = given.frame_rates, given.weight  # type: ignore[attr-defined]
        pl_module.loss = loss


def test_each_precision_is_what_it_says_on_a_cpu(tiny_corpus: Path, tmp_path: Path) -> None:
    """The features, the loss, averages and running statistics are float32 in each; after an epoch of plain descent, its
    weights are those of 32 bits to bfloat16's three digits, and not to float32's.
    """
    trained = {}
    for precision in PRECISIONS:
        types, folder = Types(), tmp_path / str(precision)
        options = (f"precision={precision}", "max_epochs=1", "optimizer=sgd", "optimizer.lr=0.01", "dropout=0")
        task = fit(tiny_corpus, folder, *options, "averaging=ema", callbacks=(types,))
        weights, convolution, recurrent = CPU_TYPES[precision]
        assert {p.dtype for p in task.model.parameters()} == {weights}
        assert types.seen["convolution"] == convolution
        assert types.seen["recurrent"] == recurrent
        assert types.seen["loss"] == types.seen["features"] == torch.float32
        assert {b.dtype for b in task.model.buffers()} == {torch.float32}
        average = torch.load(folder / "last.ckpt", weights_only=True)["averaging"][0]
        assert {t.dtype for t in average} == {torch.float32}
        trained[precision] = torch.cat([p.detach().float().flatten() for p in task.model.parameters()])
        assert trained[precision].isfinite().all()
    for precision in ("bf16", "16-master", "bf16-true"):
        assert 0 < (trained[precision] - trained[32]).abs().max() < 0.02


def test_cached_features_keep_their_bits(tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are float16, of which bfloat16 would lose three."""
    seen = set()
    padded = Batch.padded_features

    def see(batch: Batch, frames: torch.Tensor) -> torch.Tensor:
        seen.add(batch.features.dtype)
        return padded(batch, frames)

    monkeypatch.setattr(Batch, "padded_features", see)
    options = ("precision=bf16-true", "max_epochs=1", "cache=features", f"cache.root={tmp_path / 'cache'}")
    fit(tiny_corpus, tmp_path / "run", *options, "optimizer=sgd", "optimizer.lr=0.01")
    assert seen == {torch.float16}


def test_tf32_reaches_neither_features_nor_augmentation(tiny_corpus: Path, tmp_path: Path) -> None:
    """It is what CUDA may do within the model."""
    allowed: dict[str, set[bool]] = {"features": set(), "augment": set(), "model": set()}

    class Watch(pl.Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            augment = pl_module.augment

            def see(name: str) -> None:
                allowed[name].add(torch.backends.cuda.matmul.allow_tf32)
                allowed[name].add(torch.backends.cudnn.allow_tf32)

            def watched(*given: Any) -> Any:
                see("augment")
                return augment(*given)

            pl_module.augment = watched
            pl_module.features.register_forward_pre_hook(lambda *_: see("features"))
            pl_module.model.register_forward_pre_hook(lambda *_: see("model"))

    try:
        fit(tiny_corpus, tmp_path, "tf32=true", "max_epochs=1", callbacks=(Watch(),))
    finally:
        set_tf32(False)
    assert allowed == {"features": {False}, "augment": {False}, "model": {True}}


def test_master_weights_keep_what_sixteen_bits_would_round_away(tiny_corpus: Path, tmp_path: Path) -> None:
    """With steps far below bfloat16's spacing, weights in 16 bits hardly move; master weights move as those in 32 do,
    by gradients of bfloat16's precision.
    """
    options = ("max_epochs=1", "optimizer=sgd", "optimizer.lr=1e-5", "schedule=constant", "dropout=0")
    moved = {}
    for precision in ("32", "16-master", "bf16-true"):
        cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), *options)
        first, _ = assemble(cfg, build(cfg.data))
        task = fit(tiny_corpus, tmp_path / precision, f"precision={precision}", *options)
        pairs = zip(task.model.parameters(), first.model.parameters(), strict=True)
        moved[precision] = torch.cat([(after.detach() - before.detach()).flatten() for after, before in pairs])
    exact, master, rounded = moved.values()
    assert (master - exact).norm() < 0.1 * exact.norm()
    assert (rounded - exact).norm() > 0.5 * exact.norm()


def test_tf32_is_set_for_products_and_for_cudnn_and_told_to_be_idle_on_a_cpu() -> None:
    try:
        for on in (True, False):
            set_tf32(on)
            assert torch.backends.cuda.matmul.allow_tf32 is torch.backends.cudnn.allow_tf32 is on
    finally:
        set_tf32(False)
    assert notice(32, True, 0) == "tf32=true changes nothing on a CPU"


OPTIONS = ("max_epochs=2", "batch.size=2", "norm=batch", "dropout=0")

WORKER = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [{source!r}, {tests!r}]
from contextlib import nullcontext
from pathlib import Path
from pytorch_lightning import Callback
from asr_ablations.config.build import build
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.training.assembly import assemble
from tests.helpers.fits import SMALL, fit
from tests.helpers.support import compose, tiny_overrides

class Validated(Callback):
    def __init__(self):
        self.ids, self.statistics, self.metrics = [], [], {{}}

    def on_validation_batch_start(self, trainer, module, batch, batch_idx, dataloader_idx=0):
        self.ids.append([trainer.current_epoch, batch.ids])
        self.statistics.append([trainer.current_epoch, [float(b.double().sum()) for b in module.model.buffers()]])

    def on_validation_end(self, trainer, module):
        self.metrics = {{key: float(value) for key, value in trainer.callback_metrics.items()}}

root, folder, options = Path({root!r}), Path({folder!r}), {options!r}
seen = Validated()
task = fit(root, folder, *options, callbacks=(seen,))
cfg = compose(*SMALL, *tiny_overrides(root), *options)
data = assemble(cfg, build(cfg.data))[1]
data.setup()
data.trainer = task.trainer
transcribed = transcribe_set(task, data, "dev", nullcontext, lambda _: None)
(folder / (os.environ["RANK"] + ".json")).write_text(json.dumps(
    {{"ids": seen.ids, "statistics": seen.statistics, "metrics": seen.metrics,
      "rows": transcribed.rows, "loss": transcribed.loss}}))
"""


@pytest.mark.slow
def test_two_ranks_share_one_validation_and_one_evaluation(tiny_corpus: Path, tmp_path: Path) -> None:
    """The figures are those of one process with the model that was saved."""
    paths = {"source": str(REPOSITORY / "src"), "tests": str(REPOSITORY)}
    script = tmp_path / "worker.py"
    script.write_text(WORKER.format(root=str(tiny_corpus), folder=str(tmp_path), options=OPTIONS, **paths))
    done = run_ranks(script)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), *OPTIONS)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    dev = sorted(u.id for u in data.sets["dev"].utterances)
    for epoch in range(cfg.max_epochs):
        shares = [[id_ for e, ids in rank["ids"] if e == epoch for id_ in ids] for rank in (first, second)]
        assert sorted(shares[0] + shares[1]) == dev, "each once"
        assert all(shares)
        statistics = [value for rank in (first, second) for e, value in rank["statistics"] if e == epoch]
        assert statistics.count(statistics[0]) == len(statistics), "one model"
    last = torch.load(tmp_path / "epoch=1.ckpt", weights_only=True)["state_dict"]
    task.load_state_dict({key: value for key, value in last.items() if key.startswith("model.")}, strict=False)
    alone = transcribe_set(task, data, "dev", nullcontext, lambda _: None)
    assert first["rows"] == second["rows"] == alone.rows
    assert first["loss"] == second["loss"] == pytest.approx(alone.loss, rel=1e-5)
    assert first["metrics"]["validation/dev/loss"] == pytest.approx(alone.loss, rel=1e-5)
    errors = sum(row["substitutions"] + row["deletions"] + row["insertions"] for row in alone.rows)
    assert first["metrics"]["validation/dev/wer"] == pytest.approx(errors / sum(row["words"] for row in alone.rows))


def test_where_a_rank_would_have_nothing_to_validate_each_takes_the_whole_set(tiny_corpus: Path) -> None:
    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus))
    data = assemble(cfg, build(cfg.data))[1]
    data.setup()
    everything = {u.id for u in data.sets["dev"].utterances}
    for ranks in (1, 2, len(everything), len(everything) + 1):
        seen = []
        for rank in range(ranks):
            place = SimpleNamespace(global_rank=rank, world_size=ranks)
            data.trainer = place  # type: ignore[assignment]
            (loader,) = data.val_dataloader()
            seen.append([id_ for batch in loader for id_ in batch.ids])
        assert {id_ for ids in seen for id_ in ids} == everything
        assert all(seen)
        assert len(seen[0]) == (len(everything) if ranks > len(everything) else -(-len(everything) // ranks))
