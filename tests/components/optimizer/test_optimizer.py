"""The contracts of optimizers and of gradient rules."""

import math
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from asr_ablations.components.optimizer.schedule_free import ScheduleFreeAdamW
from asr_ablations.training.assembly import assemble, optimizer_factory
from tests.helpers.fits import fit
from tests.helpers.run_results import same
from tests.helpers.support import component, compose, described, group_options, standing_corpus


def described_optimizer(name: str, **changes: Any) -> Any:
    """As a training builds it."""
    return optimizer_factory(described("optimizer", name, **changes), scaled=False)


def groups_by(task: Any, *keys: str) -> dict[tuple[Any, ...], set[str]]:
    """Names of the parameters of each group by these of its values."""
    groups = task.make_optimizer(task.model.named_parameters()).param_groups
    return {tuple(group[key] for key in keys): {*group["param_names"]} for group in groups}


def test_muon_updates_the_matrices_of_hidden_layers() -> None:
    """Two layers of two directions with two matrices each; kernels, norms, biases and the output are AdamW's."""
    words = ("optimizer=muon", "model=tiny")
    groups = groups_by(assembled(*words, "optimizer.rates={recurrent.1:0.5}"), "muon", "lr")
    matrices = [
        {f"recurrent.{layer}.{way}.cell.weight_{kind}_l0" for way in ("forwards", "backwards") for kind in ("ih", "hh")}
        for layer in (0, 1)
    ]
    assert groups[True, 0.003] == matrices[0]
    assert groups[True, 0.0015] == matrices[1]
    assert sum(map(len, groups.values())) == 30
    assert {"output.weight", "convolutions.0.convolve.weight", "norms.0.weight"} <= groups[False, 0.003]
    assert "output.weight" in groups_by(assembled(*words, "optimizer.adamw=[recurrent.0]"), "muon")[True,]


def test_muons_step_is_orthogonal_and_as_large_as_adamws() -> None:
    """U Vᵀ of the gradient's singular value decomposition, within the iteration's tolerance of 0.7 to 1.2, times
    0.2 √max(rows, columns); after decay by lr · weight_decay (Liu et al. 2025, equation 4).
    """
    torch.manual_seed(1)
    weights, bias = nn.Parameter(torch.randn(12, 8)), nn.Parameter(torch.randn(8))
    before, before_bias = weights.detach().clone(), bias.detach().clone()
    make = described_optimizer("muon", lr=0.1, weight_decay=0.5)
    optimizer = make([("hidden.weight", weights), ("output.bias", bias)])
    weights.grad, bias.grad = torch.randn(12, 8), torch.randn(8)
    optimizer.step()
    step = (before * (1 - 0.1 * 0.5) - weights.detach()) / (0.1 * 0.2 * math.sqrt(12))
    left, _, right = torch.linalg.svd(weights.grad, full_matrices=False)
    sizes = left.T @ step @ right.T
    assert ((sizes.diag() > 0.6) & (sizes.diag() < 1.3)).all()
    assert (sizes - sizes.diag().diag()).abs().max() < 0.03
    torch.testing.assert_close(bias.detach(), before_bias * (1 - 0.1 * 0.5) - 0.1 * bias.grad.sign())


def assembled(*overrides: str) -> Any:
    return assemble(compose("width=8", "layers=2", "gpus=0", *overrides), standing_corpus())[0]


def test_each_parameter_has_the_rate_of_the_longest_name() -> None:
    """The group with the base rate comes first, because its rate is logged, whatever the model's first part is."""
    task = assembled("optimizer.rates={convolutions:0.1,recurrent:0.5,recurrent.1:2,output.bias:0.1}")
    groups = groups_by(task, "lr")
    names = [name for name, _ in task.model.named_parameters()]
    parts = {
        0.003: ("norms.", "output.weight"), 0.003 * 0.1: ("convolutions.", "output.bias"),
        0.003 * 0.5: ("recurrent.0.",), 0.003 * 2: ("recurrent.1.",),
    }  # fmt: skip
    assert groups == {(rate,): {name for name in names if name.startswith(part)} for rate, part in parts.items()}
    assert sum(map(len, groups.values())) == len(names) == 30
    assert next(iter(groups)) == (0.003,)


@pytest.mark.parametrize("options", [("model=tiny",), ("model=conformer", "model.heads=2"), ("norm=layer", "rnn=gru")])
def test_norms_and_biases_have_no_decay_and_all_else_has(options: tuple[str, ...]) -> None:
    task = assembled(*options, "optimizer.decay_norms_and_biases=false")
    groups = groups_by(task, "weight_decay")
    undecayed, decayed = groups[0.0,], groups[0.01,]
    assert len(groups) == 2
    parts = dict(task.model.named_modules())
    for name in undecayed | decayed:
        owner, _, leaf = name.rpartition(".")
        is_norm = "Norm" in type(parts[owner]).__name__
        assert (name in undecayed) == (is_norm or "bias" in leaf), name
    assert len(undecayed | decayed) == len([*task.model.parameters()])


def parameters() -> list[nn.Parameter]:
    """A matrix whose rows are longer than 2, a kernel, a bias, and a parameter that has no gradient."""
    generator = torch.Generator().manual_seed(0)
    drawn = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((4, 9), (2, 3, 3, 3), (5,), (7,))]
    give_gradients(drawn, 0, 1.0)
    return drawn


def give_gradients(these: list[nn.Parameter], step: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(step)
    for parameter in these[:-1]:
        parameter.grad = scale * torch.randn(parameter.shape, generator=generator)


def treated(treatment: Any, these: list[nn.Parameter], step: int = 0, seed: int = 0) -> dict[str, float]:
    """What a step's treatment logs; the gradients are changed in place."""
    logged: dict[str, float] = {}
    treatment.before_step(these, step=step, seed=seed, log=lambda key, value, **_: logged.update({key: float(value)}))
    return logged


def norm(these: list[nn.Parameter]) -> float:
    return math.sqrt(sum(float(p.grad.square().sum()) for p in these if p.grad is not None))


@pytest.mark.parametrize("name", group_options("gradient"))
def test_the_norm_before_is_logged_and_no_gradient_appears_where_none_was(name: str) -> None:
    these = parameters()
    before = norm(these)
    logged = treated(component("gradient", name), these)
    assert logged["train/gradient_norm"] == pytest.approx(before, rel=1e-5)
    assert these[-1].grad is None
    assert all(p.grad.isfinite().all() for p in these[:-1])  # type: ignore[union-attr]


def test_norm_keeps_the_direction_and_value_bounds_each_entry() -> None:
    for limit, clipped in ((0.5, 1.0), (1000.0, 0.0)):
        these, plain = parameters(), parameters()
        assert treated(component("gradient", "norm", limit=limit), these)["train/clipped_share"] == clipped
        scale = min(1.0, limit / norm(plain))
        for changed, given in zip(these[:-1], plain, strict=False):
            torch.testing.assert_close(changed.grad, scale * given.grad, rtol=1e-4, atol=1e-7)  # type: ignore[operator]
    these, plain = parameters(), torch.cat([p.grad.flatten() for p in parameters()[:-1]])  # type: ignore[union-attr]
    logged = treated(component("gradient", "value", limit=0.7), these)
    values = torch.cat([p.grad.flatten() for p in these[:-1]])  # type: ignore[union-attr]
    assert torch.equal(values, plain.clamp(-0.7, 0.7))
    assert logged["train/clipped_share"] == pytest.approx(float((plain.abs() > 0.7).float().mean()))


def test_noise_has_the_papers_variance() -> None:
    """Neelakantan et al. 2015, eq. 1: variance η / (1 + t)^γ; within five standard errors, and of mean 0."""
    parameter = nn.Parameter(torch.zeros(200_000))
    parameter.grad = torch.zeros_like(parameter)
    logged = treated(component("gradient", "noise", variance=0.3, decay=0.55), [parameter], 100)
    expected = 0.3 / (1 + 100) ** 0.55
    assert logged["train/gradient_noise"] == pytest.approx(math.sqrt(expected))
    assert abs(parameter.grad.var() / expected - 1) < 5 * math.sqrt(2 / 200_000)
    assert abs(parameter.grad.mean()) < 5 * math.sqrt(expected / 200_000)


def test_noise_is_of_seed_and_step_alone() -> None:
    torch.manual_seed(1)
    state, drawn = torch.get_rng_state(), []
    for step, seed in ((3, 0), (3, 0), (3, 1), (4, 0)):
        these = parameters()
        treated(component("gradient", "noise"), these, step, seed)
        drawn.append(torch.cat([p.grad.flatten() for p in these[:-1]]))  # type: ignore[union-attr]
    assert torch.equal(state, torch.get_rng_state()), "torch's global stream belongs to dropout"
    assert [torch.equal(drawn[0], other) for other in drawn] == [True, True, False, False]


def test_constraint_bounds_the_weights_into_each_unit() -> None:
    these = parameters()
    before = [p.detach().clone() for p in these]
    logged: dict[str, float] = {}
    component("gradient", "constraint", largest=2.5).after_step(these, lambda k, v, **_: logged.update({k: float(v)}))
    over = 0
    for old, new in zip(before, these, strict=True):
        if old.dim() < 2:
            assert torch.equal(old, new), "a bias is not bounded"
            continue
        for row, changed in zip(old.flatten(1), new.flatten(1), strict=True):
            over += int(row.norm() > 2.5)
            torch.testing.assert_close(changed.detach(), row * min(1.0, 2.5 / float(row.norm())))
    assert 0 < over < 6
    assert logged["train/constrained_share"] == pytest.approx(over / 6)


def test_outliers_are_skipped() -> None:
    """None during the warm-up; then what is over four times the mean so far, and what is no number."""
    treatment, these, skipped = component("gradient", "outliers", warm_up=3), parameters(), []
    for scale in (1.0, 9.0, 1.0, 1.0, 1.0, 60.0, 1.0, math.inf, math.nan, 1.0):
        give_gradients(these, 0, scale)
        skipped.append(treated(treatment, these)["train/skipped_share"])
        assert (norm(these) == 0) == bool(skipped[-1])
    assert skipped == [0, 0, 0, 0, 0, 1, 0, 1, 1, 0]
    assert treatment.mean.isfinite()


def test_schedule_free_steps_are_those_of_the_paper() -> None:
    """Defazio et al. 2024, algorithm 1, with the sequences x, y and z written out; a rate that a schedule changes."""
    rates, (first, second), decay = [0.1, 0.2, 0.05, 0.1, 0.1], (0.8, 0.95), 0.3
    generator = torch.Generator().manual_seed(2)
    weights = nn.Parameter(torch.randn(3, 4, generator=generator, dtype=torch.double))
    make = described_optimizer("schedule_free", betas=[first, second], weight_decay=decay, warm_up=3)
    optimizer = make([("weights", weights)])
    x = z = weights.detach().clone()
    squares, total = torch.zeros_like(x), 0.0
    for number, rate in enumerate(rates, start=1):
        y = (1 - first) * z + first * x
        torch.testing.assert_close(weights.detach(), y, rtol=1e-6, atol=1e-7)
        gradient = torch.randn(3, 4, generator=generator, dtype=torch.double)
        squares = second * squares + (1 - second) * gradient**2
        stepped = rate * math.sqrt(1 - second**number) * min(1, number / 3)
        z = z - stepped * gradient / (squares.sqrt() + 1e-8) - stepped * decay * y
        total += stepped**2
        x = (1 - stepped**2 / total) * x + stepped**2 / total * z
        weights.grad, optimizer.param_groups[0]["lr"] = gradient, rate
        optimizer.step()
        torch.testing.assert_close(ScheduleFreeAdamW.average(optimizer, weights), x, rtol=1e-6, atol=1e-7)
    assert (x - weights.detach()).abs().max() > 1e-3, "the average is not what is trained"


def test_validation_and_checkpoints_have_the_average_and_training_goes_on_from_y(
    tiny_corpus: Path, tmp_path: Path
) -> None:
    """At each validation, in the state_dict of last.ckpt and at the end; y is kept beside it."""

    class Watch(pl.Callback):
        def __init__(self) -> None:
            self.trained: list[Any] = []
            self.expected: list[Any] = []
            self.validated: list[Any] = []

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            (optimizer,), model = trainer.optimizers, pl_module.model
            self.trained = [weights.detach().clone() for weights in model.parameters()]
            self.expected = [ScheduleFreeAdamW.average(optimizer, weights).clone() for weights in model.parameters()]

        def on_validation_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            self.validated = [weights.detach().clone() for weights in pl_module.model.parameters()]

    watch = Watch()
    options = ("optimizer=schedule_free", "schedule=constant", "optimizer.warm_up=0")
    task = fit(tiny_corpus, tmp_path, *options, callbacks=(watch,))
    last = torch.load(tmp_path / "last.ckpt", weights_only=True)
    names = [name for name, _ in task.model.named_parameters()]  # type: ignore[attr-defined]
    assert same(watch.validated, watch.expected)
    assert same([last["state_dict"][f"model.{name}"] for name in names], watch.expected)
    assert same([weights.detach() for weights in task.model.parameters()], watch.expected)  # type: ignore[attr-defined]
    assert same(last["trained_weights"][: len(names)], watch.trained)
    assert not same(watch.trained, watch.expected)
