"""Steps under a scaled loss, decided on the device: the numbers of torch's scaler, which the host waits for."""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins import MixedPrecision
from torch import nn

from asr_ablations.config.build import build
from asr_ablations.training import assembly
from asr_ablations.training.optimizer_steps import FUSED, DeviceScaler, optimizer_of
from asr_ablations.training.precision import Scaled
from tests.helpers.fits import fit
from tests.helpers.support import compose, group_options

pytestmark = [
    pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler.step"),  # the first step overflows
]

STEPS, OVERFLOWS = 20, {0, 1, 9, 14}
SCALE: dict[str, Any] = {"init_scale": 1024.0, "growth_interval": 4}
KEPT = ("state_dict", "optimizer_states", "averaging", "trained_weights", "lr_schedulers", "scaler")
"""Entries of a checkpoint, and the scaler's."""


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
    optimizer = make([*net.parameters(), *late.parameters()])
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
    weights = [p.detach() for p in optimizer.param_groups[0]["params"]]
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
    return [make, partial(make, fused=True)] if make.func in FUSED else [make]


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
    make = partial(optimizer_of, build(compose(f"optimizer={name}").optimizer), scaled=True)
    try:
        trained = train(make, DeviceScaler("cuda", **SCALE), "cuda", watched=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = train(make, Waiting("cuda", **SCALE), "cuda")
    if name == "adagrad":  # it counts on the host, for its lr_decay, which is 0
        trained, expected = trained._replace(state=[]), expected._replace(state=[])
    assert_same(trained, expected)


def test_fused_steps_are_nearly_the_others() -> None:
    """They round otherwise."""
    for name in group_options("optimizer"):
        first, *fused = (train(make, DeviceScaler("cpu", **SCALE)) for make in optimizers(name))
        for other in fused:
            for weights, expected in zip(other.weights, first.weights, strict=True):
                torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-6)


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
    """Twenty steps and more of the whole: losses and scales, and a checkpoint with averages, optimizer and means."""
    plugins = {
        "ours": Scaled("cpu"),
        "theirs": MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu")),
    }
    seen, kept = {}, {}
    for name, plugin in plugins.items():
        monkeypatch.setattr(assembly, "trainer_options", lambda *_, plugin=plugin: {"plugins": plugin})
        watch, folder = Overflow(), tmp_path / name
        # Lightning's leaves it to a fused optimizer to unscale, after the gradients were treated
        options = ("precision=16", "max_epochs=7", "averaging=ema", "gradient=outliers", "+optimizer.fused=false")
        fit(tiny_corpus, folder, *options, callbacks=(watch,))
        seen[name], kept[name] = watch.steps, torch.load(folder / "last.ckpt", weights_only=True)
    assert len(seen["ours"]) >= STEPS
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


@pytest.mark.parametrize("scaled", [False, True])
def test_on_a_cpu_the_step_is_fused_where_it_can_be(scaled: bool) -> None:
    weights = [nn.Parameter(torch.ones(3))]
    for name in group_options("optimizer"):
        make = build(compose(f"optimizer={name}").optimizer)
        (group,) = optimizer_of(make, weights, scaled=scaled).param_groups
        assert bool(group.get("fused")) == (make.func in FUSED)
        if make.func in FUSED:
            (group,) = optimizer_of(partial(make, fused=False), weights, scaled=scaled).param_groups
            assert not group["fused"], "as the config has it"


@pytest.mark.parametrize("name", group_options("optimizer"))
def test_a_checkpoint_of_another_device_leaves_the_way_as_it_is(name: str) -> None:
    """That of a GPU is fused or counts on the device, which on a CPU torch refuses; and a GPU's would not be fused."""
    make = build(compose(f"optimizer={name}").optimizer)
    weights = [nn.Parameter(torch.ones(3))]
    ways = [{"fused": True}, {"fused": False}] if make.func in FUSED else [{"capturable": True}] * (name == "adadelta")
    for way in [{}, *ways]:
        here, there = (optimizer_of(made, weights, scaled=True) for made in (make, partial(make, **way)))
        own = [{key: group[key] for key in ("fused", "capturable") if key in group} for group in here.param_groups]
        here.load_state_dict(there.state_dict())
        for group, expected in zip(here.param_groups, own, strict=True):
            assert expected.items() <= group.items()
        there.load_state_dict(here.state_dict())
        assert way.items() <= there.param_groups[0].items()
        weights[0].grad = torch.ones(3)
        here.step()
