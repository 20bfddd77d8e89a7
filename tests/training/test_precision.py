"""Precisions, ranks, checkpoints that are loaded, and weights that a run begins with."""

import json
import pickle
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf

from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import PRECISIONS, check
from asr_ablations.data.batch import Batch
from asr_ablations.experiment.run import set_up
from asr_ablations.experiment.utterances import transcribe_set
from asr_ablations.runs.identity import identity, weights_file
from asr_ablations.tools.files import sha256
from asr_ablations.training.assembly import assemble
from asr_ablations.training.precision import notice, set_tf32
from asr_ablations.training.trained_model import load_run
from asr_verdicts.errors import UsageError
from tests.helpers.fits import SMALL, fit
from tests.helpers.ranks import run_ranks
from tests.helpers.support import CONF, REPOSITORY, compose, tiny_overrides
from tests.helpers.trained_runs import write_trained

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


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run's folder with checkpoints, of a corpus that is not there."""
    folder = tmp_path_factory.mktemp("finished")
    return write_trained(folder, folder / "no-corpus")


@pytest.fixture
def run_folder(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / finished.name)


def test_the_weights_come_back_without_a_corpus(finished: Path) -> None:
    for path in (finished, finished / "checkpoints/best.ckpt"):
        trained = load_run(path, "best")
        expected = torch.load(finished / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
        assert expected
        assert all(torch.equal(value, expected[key]) for key, value in trained.task.state_dict().items())
        assert not trained.task.training
        assert trained.cfg.width == 8


def test_a_planted_pickle_or_target_is_refused_and_nothing_executed(run_folder: Path, tmp_path: Path) -> None:
    file, mark = run_folder / "checkpoints" / "last.ckpt", tmp_path / "executed"

    class Payload:
        """Unpickled, it would leave a file."""

        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return eval, (f"open({str(mark)!r}, 'w')",)

    content = {**torch.load(file, weights_only=True), "callbacks": Payload()}
    for plant in (lambda: torch.save(content, file), lambda: file.write_bytes(pickle.dumps(content))):
        plant()
        with pytest.raises(UsageError, match=r"last\.ckpt: refused; .* more than weights") as message:
            load_run(run_folder)
        assert "\n" not in str(message.value)
    cfg = OmegaConf.load(run_folder / "config.yaml")
    cfg.decoder = {"_target_": "os.system", "command": f"touch {mark}"}
    OmegaConf.save(cfg, run_folder / "config.yaml")
    with pytest.raises(UsageError, match=r"os\.system: refused"):
        load_run(run_folder)
    assert not mark.exists()


def test_keys_that_came_later_are_at_their_defaults(run_folder: Path) -> None:
    cfg = OmegaConf.load(run_folder / "config.yaml")
    del cfg["checkpoint_minutes"]
    OmegaConf.save(cfg, run_folder / "config.yaml")
    assert load_run(run_folder).cfg.checkpoint_minutes == OmegaConf.load(CONF / "config.yaml").checkpoint_minutes


def test_what_is_wrong_is_told_in_one_line(finished: Path, tmp_path: Path) -> None:
    def weights(change: Any) -> Any:
        def spoil(folder: Path) -> None:
            content = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
            change(content)
            torch.save(content, folder / "checkpoints" / "last.ckpt")

        return spoil

    def bias(change: Any) -> Any:
        key = "model.output.bias"
        return weights(lambda content: content["state_dict"].update({key: change(content["state_dict"][key])}))

    def text(name: str, written: str) -> Any:
        return lambda folder: (folder / name).write_text(written, encoding="utf-8")

    def config(change: Any) -> Any:
        def spoil(folder: Path) -> None:
            cfg = OmegaConf.load(folder / "config.yaml")
            change(cfg)
            OmegaConf.save(cfg, folder / "config.yaml")

        return spoil

    unfit = r"last\.ckpt: does not fit .*config\.yaml: model\.output\.bias "
    failed = '{"status": "failed", "reason": "no memory"}'
    for number, (spoil, message) in enumerate((
        (bias(lambda bias: bias.index_fill(0, torch.tensor(1), torch.nan)), unfit + "holds values that are"),
        (bias(lambda bias: bias.to(torch.complex64)), unfit + r"is torch\.complex64 in the file"),
        (bias(lambda bias: "text"), unfit + "is not in the file"),
        (bias(lambda bias: bias[:-1]), unfit + r"is \[\d+\] in the file and \[\d+\] in the model"),
        (weights(lambda content: content["alphabet"].update(characters="zyx ")), "does not fit .*zyx"),
        (weights(lambda content: content.update(state_dict=[])), r"last\.ckpt: not a run's checkpoint"),
        # a config as an earlier version wrote it
        (config(lambda cfg: cfg.pop("init")), r"config\.yaml: from another version, or incomplete: .*init"),
        (text("checkpoints/last.ckpt", "hello"), r"last\.ckpt: (damaged|refused)"),
        (lambda folder: (folder / "checkpoints" / "last.ckpt").unlink(), "no checkpoints/last"),
        (lambda folder: (folder / "config.yaml").unlink(), "not a run folder"),
        (text("config.yaml", "a: [b"), r"config\.yaml: cannot be read"),
        (text("config.yaml", "a: 1"), r"config\.yaml: cannot be read: it has no seed"),
        (lambda folder: (folder / "status.json").unlink(), "not finished: did not start"),
        (text("status.json", failed), "not finished: failed: no memory"),
    )):  # fmt: skip
        folder = shutil.copytree(finished, tmp_path / str(number))
        spoil(folder)
        with pytest.raises(UsageError, match=message) as error:
            load_run(folder)
        assert "\n" not in str(error.value)


def test_a_path_that_leads_nowhere(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "stray.ckpt").touch()
    for path, message in (
        ("nowhere", "not a run folder"), ("nowhere.ckpt", "no such checkpoint"), ("stray.ckpt", r"no config\.yaml"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            load_run(tmp_path / path)
    with pytest.raises(UsageError, match="checkpoint=first: expected last, best"):
        load_run(finished, "first")


@pytest.fixture(scope="module")
def trained(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trained(tmp_path_factory.mktemp("runs"), tiny_corpus, "seed=7")


def started(corpus: Path, *overrides: str) -> dict[str, torch.Tensor]:
    """The weights before the first step of a run."""
    cfg = compose(*tiny_overrides(corpus), "width=8", "layers=1", "gpus=0", "logger=csv", *overrides)
    check(cfg)
    model: Any = set_up(cfg).task.model
    return {key: value for key, value in model.state_dict().items() if isinstance(value, torch.Tensor)}


def test_a_run_starts_from_all_weights_or_from_a_part(trained: Path, tiny_corpus: Path) -> None:
    expected = started(tiny_corpus, "seed=7")
    for path in (trained, trained / "checkpoints" / "best.ckpt"):
        weights = started(tiny_corpus, f"weights={path}")
        assert all(torch.equal(weights[key], expected[key]) for key in expected)
    weights = started(tiny_corpus, f"weights={trained}", "weights_parts=[recurrent.0]")
    own, given = started(tiny_corpus), started(tiny_corpus, "seed=7")
    taken = [key for key in own if key.startswith("recurrent.0.")]
    assert all(torch.equal(weights[key], (given if key in taken else own)[key]) for key in own)
    assert any(not torch.equal(own[key], given[key]) for key in taken)
    other = "alphabet.characters='abcdefghijklmnopqrstuvwxyz -'"
    assert started(tiny_corpus, f"weights={trained}", "weights_parts=[convolutions,recurrent]", other)


def test_what_does_not_fit_is_named(trained: Path, tiny_corpus: Path, tmp_path: Path) -> None:
    for override, message in (
        ("width=6", r"recurrent\.0\.\S+ is \[[\d, ]+\] in the file and \[[\d, ]+\] in the model.*weights_parts"),
        ("layers=2", r"recurrent\.1\.\S+ is not in the file"),
        ("norm=none", r"is only in the file"),
        ("weights_parts=[recurent]", r"weights_parts=recurent: expected .*recurrent"),
        ("alphabet.characters='abcdefghijklmnopqrstuvwxyz -'", "the checkpoint was trained with the alphabet"),
        (f"weights_sha256='{64 * '0'}'", r"weights_sha256=0{64}: the SHA-256 of \S+ is [0-9a-f]{64}"),
    ):
        with pytest.raises(UsageError, match=message):
            started(tiny_corpus, f"weights={trained}", override)
    with pytest.raises(UsageError, match=r"weights=.*nowhere: expected a run's folder or a \.ckpt, but there is no"):
        check(compose(f"weights={tmp_path / 'nowhere'}"))
    with pytest.raises(UsageError, match=r"weights_parts=.*weights=<run folder or \.ckpt>"):
        check(compose("weights_parts=[output]"))


def test_a_run_is_known_by_the_content_of_its_weights(trained: Path, tmp_path: Path) -> None:
    """Not by the name of the file."""
    last, moved = weights_file(str(trained)), tmp_path / "moved.ckpt"
    moved.write_bytes(last.read_bytes())
    ids = {identity(compose(f"weights={path}")) for path in (trained, last, moved)}
    assert len(ids) == 1
    assert identity(compose()) not in ids
    best = trained / "checkpoints" / "best.ckpt"
    assert sha256(best) != sha256(last)
    assert identity(compose(f"weights={best}")) not in ids
