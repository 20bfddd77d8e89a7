"""Steps of the optimizer: scaled losses, accumulation, drawing, chunks."""

import csv
import itertools
import math
import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins import MixedPrecision
from torch import nn

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.batch import Batch
from asr_ablations.training import assembly
from asr_ablations.training.assembly import FUSED, assemble, build_optimizer, trainer
from asr_ablations.training.callbacks.tables import StepLosses
from asr_ablations.training.model_summary import draw_model
from asr_ablations.training.precision import DeviceScaler, Scaled
from asr_ablations.training.task import Chunks, CTCTask
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


def optimizers(name: str) -> list[Any]:
    """Of an option of the group, as on a CPU and, where it can be, fused, as on a GPU."""
    make = build(compose(f"optimizer={name}", "optimizer.weight_decay=0.01").optimizer)
    ways: list[dict[str, bool]] = [{"fused": False}, {"fused": True}] if make.func in FUSED else [{}]
    return [partial(build_optimizer, partial(make, **way), scaled=False) for way in ways]


@pytest.mark.parametrize("name", group_options("optimizer"))
def test_steps_and_scales_are_those_that_the_host_waits_for(name: str) -> None:
    """Weights, the optimizer's state and the history of the scale are bit-equal, with overflows in the first step of
    the optimizer, in that of a weight, and between others.
    """
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


SMALL = (
    "width=8", "layers=1", "gpus=0", "logger=csv", "max_epochs=2", "dropout=0", "optimizer=sgd",
    "gradient.limit=0.5",
)  # fmt: skip
"""Two epochs of three batches: with two batches an update, the second update of an epoch is of one batch."""


def fitted(corpus: Path, folder: Path, *overrides: str, max_steps: int = -1) -> tuple[CTCTask, pl.Trainer]:
    cfg = compose(*SMALL, *tiny_overrides(corpus), *overrides)
    folder.mkdir(exist_ok=True)
    task, data = assemble(cfg, build(cfg.data))
    data.setup()
    fitter = trainer(cfg, 0, [], [StepLosses(folder)], max_steps=max_steps, limit_val_batches=0)
    fitter.fit(task, data)
    return task, fitter


def by_hand(corpus: Path, *overrides: str) -> tuple[CTCTask, list[float], list[float]]:
    """The same training in a loop of its own: the task, the loss of each batch, the norm of each update's gradient."""
    cfg = compose(*SMALL, *tiny_overrides(corpus), *overrides)
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


def test_an_update_is_over_the_mean_gradient_of_its_batches(tiny_corpus: Path, tmp_path: Path) -> None:
    """Also the last one of an epoch, of fewer batches; the schedule and the clipping count updates."""
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
