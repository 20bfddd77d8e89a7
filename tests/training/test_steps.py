"""A task, and the steps of its optimizer: scaled losses, accumulation, drawing, chunks."""

import csv
import itertools
import math
import random
import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jiwer
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.plugins import MixedPrecision
from torch import nn
from torchmetrics.text import CharErrorRate, WordErrorRate

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.batch import Batch
from asr_ablations.training import assembly
from asr_ablations.training.assembly import FUSED, assemble, build_optimizer, trainer
from asr_ablations.training.callbacks.tables import StepLosses
from asr_ablations.training.model_summary import draw_model
from asr_ablations.training.precision import DeviceScaler, Scaled
from asr_ablations.training.task import Chunks, CTCTask, ErrorRate
from asr_verdicts.error_counts import character_errors, word_errors
from tests.helpers.fits import fit
from tests.helpers.support import component, compose, group_options, standing_corpus, tiny_overrides

pytestmark = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step")  # the first step overflows

STEPS, OVERFLOWS = 20, {0, 1, 9, 14}
SCALE: dict[str, Any] = {"init_scale": 1024.0, "growth_interval": 4}
KEPT = ("state_dict", "optimizer_states", "averaging", "trained_weights", "lr_schedulers", "scaler")
"""Entries of a checkpoint, and the scaler's."""
NARROW = [f"model.convolutions.{number}.channels=4" for number in (0, 1)]


class Waiting(torch.amp.GradScaler):
    """torch's scaler, by which the host decides for every optimizer, a fused one too."""

    def step(self, optimizer: torch.optim.Optimizer, *arguments: Any, **keywords: Any) -> Any:
        return self._maybe_opt_step(optimizer, self._per_optimizer_states[id(optimizer)])


class Trained(NamedTuple):
    losses: list[float]
    scales: list[float]
    weights: list[torch.Tensor]
    state: list[tuple[str, torch.Tensor]]


def train(make: Any, scaler: torch.amp.GradScaler, device: str = "cpu", watched: bool = False) -> Trained:
    """Twenty steps of a small net in float16, some of which overflow; a part of it is trained from the fifth step on,
    the first two of which overflow for it. watched: CUDA refuses to wait, but in the steps that may.
    """
    torch.manual_seed(0)
    net, late = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).to(device), nn.Linear(3, 3).to(device)
    optimizer = make(nn.ModuleDict({"net": net, "output": late}).named_parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    data = [(torch.randn(8, 6).to(device), torch.randn(8, 3).to(device)) for _ in range(STEPS)]
    losses, scales = [], []
    for number, (x, y) in enumerate(data):
        if watched:
            torch.cuda.set_sync_debug_mode("default" if number in {0, 1, 2, 5, 6, 7} else "error")
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            output = net(x)
            output = output if number < 5 else late(output)
        loss = (output.float() - y).square().mean()
        factor = torch.inf if number in OVERFLOWS | {5, 6} else 1.0
        scaler.scale(loss * factor).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        losses.append(loss.detach())
        scales.append(scaler._get_scale_async().clone())  # type: ignore[union-attr]
    if watched:
        torch.cuda.set_sync_debug_mode("default")
    state = [(name, value) for kept in optimizer.state.values() for name, value in kept.items() if value is not None]
    weights = [p.detach() for group in optimizer.param_groups for p in group["params"]]
    return Trained([*map(float, losses)], [*map(float, scales)], weights, state)


def assert_same(one: Trained, other: Trained) -> None:
    assert one.losses == other.losses
    assert one.scales == other.scales
    assert all(map(torch.equal, one.weights, other.weights))
    assert [name for name, _ in one.state] == [name for name, _ in other.state]
    assert all(torch.equal(value, expected) for (_, value), (_, expected) in zip(one.state, other.state, strict=True))


@pytest.mark.parametrize("name", group_options("optimizer"))
def test_steps_and_scales_are_those_that_the_host_waits_for(name: str) -> None:
    """Weights, the optimizer's state and the history of the scale are bit-equal, with overflows in the first step of
    the optimizer, in that of a weight, and between others.
    """

    def optimizers(name: str) -> list[Any]:
        """Of an option of the group, as on a CPU and, where it can be, fused, as on a GPU."""
        make = build(compose(f"optimizer={name}", "optimizer.weight_decay=0.01").optimizer)
        ways: list[dict[str, bool]] = [{"fused": False}, {"fused": True}] if make.func in FUSED else [{}]
        return [partial(build_optimizer, partial(make, **way), scaled=False) for way in ways]

    # memory that nobody has written holds no number then
    torch.use_deterministic_algorithms(True)
    try:
        for make in optimizers(name):
            scaler = DeviceScaler("cpu", **SCALE)
            trained = train(make, scaler)
            expected = train(make, Waiting("cpu", **SCALE))
            assert all(weights.isfinite().all() for weights in expected.weights)
            assert min(expected.scales) < 1024 / 8 < max(expected.scales)
            assert_same(trained, expected)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", group_options("optimizer"))
def test_on_a_gpu_no_step_but_the_first_is_waited_for(name: str) -> None:
    make = partial(build_optimizer, build(compose(f"optimizer={name}").optimizer), scaled=True)
    try:
        trained = train(make, DeviceScaler("cuda", **SCALE), "cuda", watched=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = train(make, Waiting("cuda", **SCALE), "cuda")
    if name == "adagrad":  # it counts on the host, for its lr_decay, which is 0
        trained, expected = trained._replace(state=[]), expected._replace(state=[])
    assert_same(trained, expected)


class Overflow(pl.Callback):
    """Plants infinite gradients, and keeps what each step shows."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float]] = []

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        if trainer.global_step in OVERFLOWS:
            next(p for p in pl_module.model.parameters() if p.grad is not None).grad.fill_(torch.inf)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        self.steps.append((float(outputs["loss"]), trainer.precision_plugin.scaler.get_scale()))


def test_a_run_in_float16_is_the_one_that_lightning_and_torch_make(
    tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifteen steps of the whole: losses and scales, and a checkpoint with averages, optimizer and means."""
    plugins = {
        "ours": Scaled("cpu"),
        "theirs": MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu")),
    }
    seen, kept = {}, {}
    for name, plugin in plugins.items():
        monkeypatch.setattr(assembly, "trainer_options", lambda *_, plugin=plugin: {"plugins": [plugin]})
        watch, folder = Overflow(), tmp_path / name
        # Lightning's leaves it to a fused optimizer to unscale, after the gradients were treated
        options = ("precision=16", "max_epochs=5", "averaging=ema", "gradient=outliers", "+optimizer.fused=false")
        # half precision is slow on a CPU
        fit(tiny_corpus, folder, *options, "norm=none", *NARROW, callbacks=(watch,))
        seen[name], kept[name] = watch.steps, torch.load(folder / "last.ckpt", weights_only=True)
    assert len(seen["ours"]) > max(OVERFLOWS)
    assert seen["ours"] == seen["theirs"]
    states = [{**all_, "scaler": all_[type(plugins[name]).__name__]} for name, all_ in kept.items()]
    ours, theirs = (_leaves([state[key] for key in KEPT]) for state in states)
    assert len(ours) > 50
    assert ours == theirs


def _leaves(value: Any) -> list[Any]:
    """All values of a checkpoint, in their order."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in [key, *_leaves(value[key])]]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value.tolist()] if isinstance(value, torch.Tensor) else [value]


@pytest.mark.parametrize("name", group_options("optimizer"))
def test_on_a_cpu_the_step_is_fused_where_it_can_be_whatever_a_checkpoint_of_another_device_says(name: str) -> None:
    """That of a GPU is fused or counts on the device, which on a CPU torch refuses; and a GPU's would not be fused."""
    make = build(compose(f"optimizer={name}").optimizer)
    weights = [("hidden", nn.Parameter(torch.ones(3, 3))), ("output", nn.Parameter(torch.ones(3)))]
    ways = [{"fused": True}, {"fused": False}] if make.func in FUSED else [{"capturable": True}] * (name == "adadelta")
    for way in [{}, *ways]:
        here, there = (build_optimizer(made, weights, scaled=True) for made in (make, partial(make, **way)))
        assert bool(here.param_groups[0].get("fused")) == (make.func in FUSED)
        own = [{key: group[key] for key in ("fused", "capturable") if key in group} for group in here.param_groups]
        here.load_state_dict(there.state_dict())
        for group, expected in zip(here.param_groups, own, strict=True):
            assert expected.items() <= group.items()
        there.load_state_dict(here.state_dict())
        assert way.items() <= there.param_groups[0].items(), "as the config has it"
        for _, parameter in weights:
            parameter.grad = torch.ones_like(parameter)
        here.step()


TWO_EPOCHS = (
    "width=8", "layers=1", "gpus=0", "logger=csv", "max_epochs=2", "dropout=0", "optimizer=sgd",
    "gradient.limit=0.5",
)  # fmt: skip
"""Two epochs of three batches: with two batches an update, the second update of an epoch is of one batch."""


def test_an_update_is_over_the_mean_gradient_of_its_batches(tiny_corpus: Path, tmp_path: Path) -> None:
    """Also the last one of an epoch, of fewer batches; the schedule and the clipping count updates."""

    def by_hand(corpus: Path, *overrides: str) -> tuple[CTCTask, list[float], list[float]]:
        """The same training in a loop of its own: task, loss of each batch, norm of each update's gradient."""
        cfg = compose(*TWO_EPOCHS, *tiny_overrides(corpus), *overrides)
        task, data = assemble(cfg, build(cfg.data))
        data.setup()
        task.train()
        optimizer = build(cfg.optimizer)(task.model.parameters())
        schedule = build(cfg.schedule)(optimizer, total_steps=4)
        losses, norms = [], []
        loader = data.train_dataloader()
        for epoch in range(2):
            loader.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]
            batches = list(loader)
            for group in (batches[:2], batches[2:]):
                optimizer.zero_grad()
                for batch in group:
                    log_probs, lengths = task(batch)
                    loss = task.loss(log_probs, lengths, batch)
                    (loss / len(group)).backward()
                    losses.append(float(loss.detach()))
                norms.append(float(nn.utils.clip_grad_norm_(task.model.parameters(), 0.5)))
                optimizer.step()
                schedule.step()
        return task, losses, norms

    def fitted(corpus: Path, folder: Path, *overrides: str, max_steps: int = -1) -> tuple[CTCTask, pl.Trainer]:
        cfg = compose(*TWO_EPOCHS, *tiny_overrides(corpus), *overrides)
        folder.mkdir(exist_ok=True)
        task, data = assemble(cfg, build(cfg.data))
        data.setup()
        fitter = trainer(cfg, 0, [], [StepLosses(folder)], max_steps=max_steps, limit_val_batches=0)
        fitter.fit(task, data)
        return task, fitter

    task, fitter = fitted(tiny_corpus, tmp_path, "batch.accumulate=2")
    expected, losses, norms = by_hand(tiny_corpus)
    assert fitter.global_step == 4
    for parameter, other in zip(task.model.parameters(), expected.model.parameters(), strict=True):  # type: ignore[attr-defined]
        torch.testing.assert_close(parameter, other, rtol=1e-5, atol=1e-6)
    with (tmp_path / "losses.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == pytest.approx(losses, rel=1e-5)
    written = [float(row["gradient_norm"] or "nan") for row in rows]
    none = math.nan
    first, second, third, fourth = norms
    assert written == pytest.approx([none, first, second, none, third, fourth], rel=1e-4, nan_ok=True)
    # of the weights after the two updates of an epoch, 0.25 of the first and 0.75 of the second
    short = ("batch.accumulate=2", "max_epochs=1", "schedule=constant")
    averaged, _ = fitted(tiny_corpus, tmp_path / "average", *short, "averaging=ema", "averaging.decay=0.25")
    last, _ = fitted(tiny_corpus, tmp_path / "last", *short)
    first, _ = fitted(tiny_corpus, tmp_path / "first", *short, max_steps=1)
    for mean, one, two in zip(*(task.model.parameters() for task in (averaged, first, last)), strict=True):  # type: ignore[attr-defined]
        torch.testing.assert_close(mean, 0.25 * one + 0.75 * two, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", group_options("model"))
def test_a_drawn_model_adds_up_and_stays_as_it_was(name: str) -> None:
    """Its outermost layers hold all parameters; neither weights, statistics, the random state nor hooks change."""
    torch.manual_seed(0)
    cfg = compose(f"model={name}", "rnn=gru", "width=8", "layers=2", "norm=batch")
    bins = cfg.features.get("bins", 1)
    network: nn.Module = build(cfg.model, features=bins, outputs=29, rnn=build(cfg.rnn), norm=build(cfg.norm)).train()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    state = torch.get_rng_state()
    lines = draw_model(network, bins).splitlines()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[key]) for key, value in network.state_dict().items())
    assert all(part.training and not part._forward_hooks and not part._forward_pre_hooks for part in network.modules())
    counts = [re.split(r" {2,}", line.strip())[-1] for line in lines if line[0] != " "]
    *layers, total = [int(count.replace(",", "")) for count in counts if not count.endswith(")")]
    assert sum(layers) == total == sum(p.numel() for p in network.parameters())


def test_one_chunk_as_long_as_the_utterance_is_the_whole_loss() -> None:
    """Of whole utterances the loss is the same to the last bits, with the linear alignment of output frames."""
    texts, lengths, alphabet = ["abc cab", "a", "bb"], torch.tensor([230, 40, 0]), Letters("abc ")
    labels = [alphabet.encode(text) for text in texts]
    batch = Batch(
        audio=torch.zeros(0, dtype=torch.int16), lengths=160 * lengths,
        targets=torch.tensor(list(itertools.chain(*labels))), target_lengths=torch.tensor([len(x) for x in labels]),
        ids=["1", "2", "3"], texts=texts,
    )  # fmt: skip
    features = torch.randn(3, 230, 4, generator=torch.Generator().manual_seed(0))
    loss = component("loss", "framewise")
    one = Chunks(component("order", "chunked", length=1000, overlap=0), loss, batch, features, lengths)
    log_probs = torch.randn(3, 230, alphabet.outputs, generator=torch.Generator().manual_seed(1)).log_softmax(dim=-1)
    cut = one.labelled(lengths, 230)
    assert torch.equal(one.features, features * (torch.arange(230) < lengths[:, None])[..., None])
    assert loss(log_probs, lengths, cut) == loss(log_probs, lengths, batch)
    assert loss.frame_rates(log_probs, lengths, cut) == loss.frame_rates(log_probs, lengths, batch)


def test_a_chunk_of_a_step_is_trained_on_as_if_it_were_alone() -> None:
    """The loss of a step is the mean over chunks that are cut by hand, each forwarded by itself. Without batch norm,
    in which batch mates matter.
    """
    words = ["order=chunked", "order.length=20", "order.overlap=5", "loss=framewise", "norm=none", "dropout=0.0"]
    task: Any = assemble(compose("width=8", "layers=1", *words), standing_corpus())[0]
    seen = {}
    task.log = lambda name, value, **_: seen.update({name: value})
    own = Batch(
        audio=(torch.randn(16000, generator=torch.Generator().manual_seed(2)) * 3000).short(),
        lengths=torch.tensor([16000]), targets=torch.tensor([1, 2, 3]), target_lengths=torch.tensor([3]),
        ids=["1"], texts=["abc"],
    )  # fmt: skip
    loss = task.training_step(own, 0)
    features, (frames,) = task.normalised_features(own)
    whole = task.loss.labels(own, torch.tensor([int(frames)]), int(frames))[0]
    losses = []
    for start in range(0, int(frames) - 5, 15):
        piece = features[:, start : start + 20]
        log_probs, lengths = task.log_probs(piece, torch.tensor([piece.shape[1]]))
        places = torch.arange(int(lengths)) * piece.shape[1] // int(lengths)
        nats = -log_probs[0, : int(lengths)].gather(1, whole[start + places][:, None])
        losses.append(nats.mean())
    assert loss.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)
    assert {*seen, *task.sums} >= {"train/loss", "train/fer", "train/padding_percent"}


SMALL = ("width=8", "layers=1", "gpus=0", "logger=csv")


def task(*overrides: str, characters: str = "ab ") -> CTCTask:
    module, _ = assemble(compose(*SMALL, *overrides, f"alphabet.characters='{characters}'"), standing_corpus())
    module.log = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    return module


def batch(texts: list[str], samples: list[int] | None = None, characters: str = "ab ") -> Batch:
    """Utterances of noise with these texts."""
    samples = samples or [8000 + 500 * i for i in range(len(texts))]
    labels = [[characters.index(c) + 1 for c in text] for text in texts]
    generator = torch.Generator().manual_seed(3)
    return Batch(
        audio=torch.randint(-3000, 3000, (sum(samples),), generator=generator, dtype=torch.int16),
        lengths=torch.tensor(samples),
        targets=torch.tensor(list(itertools.chain(*labels)), dtype=torch.long),
        target_lengths=torch.tensor([len(x) for x in labels]),
        ids=[f"u-{i}" for i in range(len(texts))],
        texts=texts,
    )


def test_the_loss_is_the_sum_over_all_alignments() -> None:
    """Of every path (T,) that collapses to the labels (Graves et al. 2006, eq. 3), in nats a label, an empty transcript
    counting as one; infinite, and not hidden as 0, where nothing fits.
    """
    for text, frames in itertools.product(("a", "ab", "aa", "aba", ""), (1, 5)):
        log_probs = torch.randn(1, frames, 3, generator=torch.Generator().manual_seed(frames)).log_softmax(dim=-1)
        given, total = batch([text]), 0.0
        for path in itertools.product(range(3), repeat=frames):
            if [symbol for symbol, _ in itertools.groupby(path) if symbol] == given.targets.tolist():
                total += math.exp(sum(log_probs[0, t, symbol].item() for t, symbol in enumerate(path)))
        expected = -math.log(total) / max(1, len(text)) if total else math.inf
        assert task().loss(log_probs, torch.tensor([frames]), given).item() == pytest.approx(expected, rel=1e-5)


def test_alone_as_in_a_batch() -> None:
    module, given = task().eval(), batch(["ab", "a", ""], [16000, 4000, 9000])
    together, lengths = module(given)
    offsets = [0, 16000, 20000]
    for i, (offset, size) in enumerate(zip(offsets, given.lengths.tolist(), strict=True)):
        alone = batch(["a"], [size])
        alone.audio = given.audio[offset : offset + size]
        log_probs, count = module(alone)
        assert count.tolist() == [lengths[i]] == module.output_frames(torch.tensor([size])).tolist()
        torch.testing.assert_close(together[i, : count[0]], log_probs[0], atol=1e-4, rtol=0)


def test_training_augments_with_seed_and_epoch_and_validation_does_not() -> None:
    module, given, seen = task("seed=7"), batch(["ab", "a"]), []

    def augment(features: torch.Tensor, lengths: torch.Tensor, ids: list[str], seed: int, epoch: int) -> torch.Tensor:
        seen.append((ids, seed, epoch))
        return features

    module.augment = augment
    module.eval().validation_step(given, 0)
    module(given)
    assert seen == []
    module.train().training_step(given, 0)
    assert seen == [(["u-0", "u-1"], 7, 0)]


def test_a_step_minimises_loss_and_penalty_and_logs_both() -> None:
    """0.0005 times the squared norm of all matrices and kernels (Ambroszczyk2019 §2.3.3), beside the loss as it is."""
    module, plain, given = task("penalty=l2", "dropout=0"), task("dropout=0"), batch(["ab", "a"])
    logged: dict[str, float] = {}
    norms = [weights.norm().item() for weights in module.model.parameters() if weights.dim() > 1]
    for each in (module, plain):
        each.augment = lambda features, *_: features
    module.log = lambda key, value, **_: logged.update({key: torch.as_tensor(value).item()})
    total, loss = (each.training_step(given, 0).item() for each in (module, plain))
    assert logged["train/loss"] == loss
    logged["train/penalty"] = module.sums["train/penalty"][0].item()
    assert logged["train/penalty"] == pytest.approx(0.0005 * sum(norm**2 for norm in norms), rel=1e-5)
    assert total == pytest.approx(loss + logged["train/penalty"], rel=1e-6)


def test_validation_error_rates_are_jiwers_and_start_anew_each_epoch(tiny_corpus: Path, tmp_path: Path) -> None:
    """Over all words of all utterances, not the mean over batches; the second epoch knows nothing of the first. The
    logged padding is that of the batches.
    """
    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), "max_epochs=2", "optimizer=sgd")
    module, data = assemble(cfg, build(cfg.data))
    data.setup()
    texts, generator = [u.text for u in data.sets["dev"].utterances], random.Random(0)
    batches = [[texts[i] for i in batch] for batch in data.evaluation_dataloader("dev").batch_sampler]
    coming, said = iter(2 * batches), ([], [])

    def garble(log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        references = next(coming)
        garbled = [" ".join(generator.choices(["a", "cab", "dad"], k=generator.randint(0, 3))) for _ in references]
        said[module.current_epoch].extend(zip(references, garbled, strict=True))
        return garbled

    module.decoder = garble
    trainer(cfg, 0, [CSVLogger(str(tmp_path), name="", version="")], []).fit(module, data)
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    logged = {name: [float(row[name]) for row in rows if row[name]] for name in rows[0]}
    epochs = [tuple(zip(*pairs, strict=True)) for pairs in said]
    assert [sorted(references) for references, _ in epochs] == [sorted(texts)] * 2
    for name, rate in (("wer", jiwer.wer), ("cer", jiwer.cer)):
        expected = [rate(list(references), list(hypotheses)) for references, hypotheses in epochs]
        assert logged[f"validation/dev/{name}"] == pytest.approx(expected, abs=1e-6)
        assert expected[0] != expected[1]
    order = data.train_dataloader().batch_sampler
    for epoch, padding in enumerate(logged["train/padding_percent"]):
        order.set_epoch(epoch)
        durations = [data.sets["train"].durations[b] for b in order]
        assert padding == pytest.approx(100 * sum(1 - d.mean() / d.max() for d in durations) / len(durations), rel=1e-3)


def test_a_stream_has_the_common_seed_or_its_own(tiny_corpus: Path) -> None:
    """seeds.<name>=5 gives that stream what seed=5 would, and no other stream anything new; 0 is a seed as any."""

    def drawn(overrides: tuple[str, ...], tiny_corpus: Path) -> dict[str, Any]:
        """What each stream of a config draws: weights, the order of an epoch, the seed of augmentation, dropout."""
        cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), *overrides)
        module, data = assemble(cfg, build(cfg.data))
        dropout = torch.rand(4).tolist()
        data.setup()
        order = data.train_dataloader().batch_sampler
        seen: list[int] = []
        module.augment = lambda features, lengths, ids, seed, epoch: (seen.append(seed), features)[1]
        module.log = lambda *_, **__: None  # type: ignore[method-assign,assignment]
        module.training_step(next(iter(data.train_dataloader())), 0)
        return {
            "init": [p.tolist() for p in module.model.parameters()],
            "order": list(order),
            "augment": seen,
            "dropout": dropout,
        }

    common, other = drawn((), tiny_corpus), drawn(("seed=5",), tiny_corpus)
    assert all(common[key] != other[key] for key in common)
    for name in common:
        assert drawn((f"seeds.{name}=5",), tiny_corpus) == {**common, name: other[name]}
        assert drawn(("seed=5", f"seeds.{name}=0"), tiny_corpus) == {**other, name: common[name]}


def test_an_overflow_stays_out_of_the_mean_gradient_norm(tiny_corpus: Path, tmp_path: Path) -> None:
    """As where a scaled loss overflows, whose step is not taken; here gradient=outliers takes none."""
    norms: list[float] = []

    class Overflow(pl.Callback):
        def on_after_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            gradients = [p.grad for p in pl_module.parameters() if p.grad is not None]
            if trainer.global_step == 1:
                gradients[0].fill_(math.inf)
            norms.append(float(torch.stack([g.square().sum() for g in gradients]).sum().sqrt()))

    cfg = compose(*SMALL, *tiny_overrides(tiny_corpus), "gradient=outliers", "gradient.limit=1e-6", "max_epochs=1")
    module, data = assemble(cfg, build(cfg.data))
    logger = CSVLogger(str(tmp_path), name="", version="")
    trainer(cfg, 0, [logger], [Overflow()]).fit(module, data)
    with (tmp_path / "metrics.csv").open() as file:
        (row,) = (row for row in csv.DictReader(file) if row.get("train/gradient_norm"))
    finite = [norm for norm in norms if math.isfinite(norm)]
    assert len(finite) == len(norms) - 1 > 0
    assert float(row["train/gradient_norm"]) == pytest.approx(sum(finite) / len(finite), rel=1e-4)
    assert float(row["train/clipped_share"]) == 1, "of the steps that have a norm"
    assert float(row["train/skipped_share"]) == pytest.approx(1 / len(norms))


@pytest.mark.parametrize(("ours", "theirs"), [(word_errors, WordErrorRate), (character_errors, CharErrorRate)])
def test_the_rates_are_torchmetrics_own(ours: Any, theirs: type[WordErrorRate]) -> None:
    generator = random.Random(0)
    first, second = ErrorRate(ours), theirs()

    def texts(count: int) -> list[str]:
        """Sentences of 0 to 8 words over few letters, so that many words agree by chance."""
        words = ["".join(generator.choices("ab é", k=generator.randint(1, 3))) for _ in range(12)]
        return [" ".join(generator.choices(words, k=generator.randint(0, 8))) for _ in range(count)]

    for epoch in range(3):
        for _ in range(20):
            size = generator.randint(1, 6)
            hypotheses, references = texts(size), texts(size)
            first.update(hypotheses, references)
            second.update(hypotheses, references)
            assert torch.equal(first.errors, second.errors)
            assert torch.equal(first.total, second.total)
        assert first.compute() == second.compute() > 0, f"epoch {epoch}"
        first.reset()
        second.reset()
