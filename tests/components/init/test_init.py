"""The contract of initialisations, and layers that are pretrained."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from asr_ablations.training.assembly import assemble
from asr_verdicts.errors import UsageError
from tests.helpers.fits import fit, model_of
from tests.helpers.support import component, compose, group_options, standing_corpus

every_variant = pytest.mark.parametrize("name", group_options("init"))
RECURRENT = [nn.LSTM, nn.GRU, nn.RNN]
SIGMAS = 5.0
"""Deviations of the estimate that a test lets pass: one in two million fails by chance, and the seed is fixed."""


def initialised(name: str, module: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    component("init", name)(module)
    return module


def check_moments(gate: torch.Tensor, deviation: float) -> None:
    """Mean 0 and this deviation: an estimate from n draws is off by 1/√(2n) of it, less for flat distributions."""
    count = gate.numel()
    assert abs(gate.std().item() / deviation - 1) < SIGMAS / math.sqrt(2 * count)
    assert abs(gate.mean().item()) < SIGMAS * deviation / math.sqrt(count)


@pytest.mark.parametrize(
    "module",
    [*(cell(90, 60) for cell in RECURRENT), nn.Linear(80, 120), nn.Conv2d(6, 10, (11, 5)), nn.Conv1d(30, 50, 11)],
    ids=lambda module: type(module).__name__,
)
def test_weights_have_the_deviation_of_the_papers(module: nn.Module) -> None:
    """Glorot & Bengio 2010, equation 12's normal form, N(0, 2 / (inputs + outputs)), and equation 16,
    U(-√6 / √(inputs + outputs), …), whose deviation is its bound over √3; He et al. 2015, equation 10:
    N(0, 2 / inputs).
    """

    def gates(module: nn.Module) -> list[tuple[torch.Tensor, int, int]]:
        """(weights, inputs, outputs) of each matrix: a recurrent layer's are stacked by the hidden size."""
        result = []
        for name, weight in module.named_parameters():
            if weight.dim() < 2:
                continue
            field = math.prod(weight.shape[2:])
            rows = module.hidden_size if name.startswith("weight_") else len(weight)
            result += [(gate, field * weight.shape[1], field * rows) for gate in weight.detach().split(rows)]
        return result

    for gate, inputs, outputs in gates(initialised("xavier", module)):
        check_moments(gate, math.sqrt(2 / (inputs + outputs)))
    for gate, inputs, _ in gates(initialised("kaiming", module)):
        check_moments(gate, math.sqrt(2 / inputs))
    for gate, inputs, outputs in gates(initialised("xavier_uniform", module)):
        bound = math.sqrt(6 / (inputs + outputs))
        check_moments(gate, bound / math.sqrt(3))
        assert bound * (1 - 20 / gate.numel()) < gate.abs().max().item() <= bound
        shares = torch.histc(gate, bins=4, min=-bound, max=bound) / gate.numel()
        assert (shares - 0.25).abs().max().item() < SIGMAS * math.sqrt(0.25 * 0.75 / gate.numel())


@pytest.mark.parametrize("cell", RECURRENT)
def test_orthogonal_turns_the_past_by_each_gate(cell: type[nn.RNNBase]) -> None:
    """QQᵀ = 1 for each gate's own matrix, another one a gate; what comes from below is Xavier's."""
    module = initialised("orthogonal", cell(90, 60))
    recurrent = module.weight_hh_l0.detach().split(60)
    for i, gate in enumerate(recurrent):
        torch.testing.assert_close(gate @ gate.T, torch.eye(60), atol=1e-5, rtol=0)
        assert all(not torch.allclose(gate, other) for other in recurrent[:i])
    for gate in module.weight_ih_l0.detach().split(60):
        check_moments(gate, math.sqrt(2 / (90 + 60)))


@pytest.mark.parametrize("name", ["xavier", "xavier_uniform"])
def test_the_channels_of_a_row_convolution_are_matrices_of_their_own(name: str) -> None:
    """Each has 9 inputs and 9 outputs whatever the width: taken as one kernel, its output would all but vanish."""
    kernel = initialised(name, nn.Conv1d(3000, 3000, 9, groups=3000, bias=False)).weight.detach()  # type: ignore[union-attr, operator]
    check_moments(kernel, math.sqrt(2 / (9 + 9)))


@pytest.mark.parametrize("name", ["xavier", "xavier_uniform", "kaiming", "orthogonal"])
@pytest.mark.parametrize("norm", group_options("norm"))
def test_norms_keep_their_ones_and_zeros(name: str, norm: str) -> None:
    model = nn.ModuleList(component("norm", norm)(frame) for frame in ([7], [5, 3]))
    before = [p.clone() for p in model.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(initialised(name, model).parameters(), before, strict=True))


def test_vectors_are_left() -> None:
    for name in ("xavier", "orthogonal"):
        module = nn.GRU(9, 8)
        before = {key: p.clone() for key, p in module.named_parameters() if p.dim() < 2}
        after = dict(initialised(name, module).named_parameters())
        assert all(torch.equal(after[key], p) for key, p in before.items())


def weights(*overrides: str, drawn_before: int = 0) -> torch.Tensor:
    """All weights that a config's run starts from, behind one another."""
    cfg = compose("width=6", "layers=2", *overrides)
    torch.manual_seed(drawn_before)
    task, _ = assemble(cfg, standing_corpus())
    return torch.cat([p.detach().flatten() for p in task.model.parameters()])


@every_variant
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    result = weights(f"init={name}", "seed=0", drawn_before=1)
    assert torch.isfinite(result).all()
    assert torch.equal(result, weights(f"init={name}", "seed=0", drawn_before=2))
    assert not torch.equal(result, weights(f"init={name}", "seed=1", drawn_before=1))


def test_weights_do_not_depend_on_what_is_not_the_model() -> None:
    others = ("dropout=0.5", "augment=none", "order=shuffled", "optimizer=sgd", "batch.size=3", "max_epochs=2")
    assert torch.equal(weights(), weights(*others))


def test_layers_come_in_one_by_one_and_those_that_stay_keep_weights_and_optimizer_state(
    tiny_corpus: Path, tmp_path: Path
) -> None:
    """Growing changes no weight of any layer; Adam's count of steps goes on for the old and begins for the new."""

    class Watch(pl.Callback):
        def __init__(self) -> None:
            self.weights: list[dict[str, torch.Tensor]] = []
            self.steps: list[list[int]] = []
            self.heights: list[int] = []

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            self.weights.append({key: value.detach().clone() for key, value in pl_module.model.named_parameters()})

        def on_train_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            self.heights.append(pl_module.model.active_layers)

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            self.on_train_epoch_start(trainer, pl_module)
            state = trainer.optimizers[0].state
            first = [next(layer.parameters()) for layer in pl_module.model.recurrent]
            self.steps.append([int(state[p]["step"]) if p in state else 0 for p in first])

    growing, watch, again = ("pretrain=layers", "layers=3", "max_epochs=4"), Watch(), Watch()
    fit(tiny_corpus, tmp_path, *growing, callbacks=(watch,))
    starts, ends = watch.weights[::2], watch.weights[1::2]
    moved = [
        {key.split(".")[1] for key in end if key.startswith("recurrent") and not torch.equal(start[key], end[key])}
        for start, end in zip(starts, ends, strict=True)
    ]
    assert moved == [{"0"}, {"0", "1"}, {"0", "1", "2"}, {"0", "1", "2"}]
    for end, start in zip(ends, starts[1:], strict=False):
        assert all(torch.equal(end[key], start[key]) for key in end)
    assert watch.steps == [[3, 0, 0], [6, 3, 0], [9, 6, 3], [12, 9, 6]]
    # a checkpoint knows how far the stack had grown: loaded, it computes what a model of one layer does
    kept = {key.removeprefix("model."): value for key, value in model_of(tmp_path, 0).items()}
    small = ("width=8", "gpus=0", "dropout=0")
    one, three = (assemble(compose(*small, f"layers={n}"), standing_corpus())[0].model.eval() for n in (1, 3))
    three.load_state_dict(kept)
    one.load_state_dict({key: kept[key] for key in one.state_dict()})
    features, lengths = torch.randn(2, 40, 40), torch.tensor([40, 23])
    assert torch.equal(three(features, lengths)[0], one(features, lengths)[0])
    fit(tiny_corpus, tmp_path / "again", *growing, callbacks=(again,), resume=tmp_path / "step=4.ckpt")
    assert again.heights == [2] * 2 + [3] * 6


def test_what_cannot_be_pretrained_is_refused() -> None:
    """Else the layers would all train from the start, and nobody would know."""
    task = SimpleNamespace(model=torch.nn.Linear(1, 1))
    with pytest.raises(UsageError, match="Linear cannot add layers later"):
        component("pretrain", "layers").setup(None, task, "fit")
    for change, message in (
        (["weights_parts=null"], "pretrain.parts=None: expected a list of parts of the model"),
        (["pretrain.parts=[encoder]"], "pretrain.parts=encoder: expected convolutions, norms, output, recurrent"),
        (["pretrain.parts=[convolutions,norms,recurrent,output]"], "pretrain.parts=.*: expected a part that remains"),
        (["pretrain.parts=[output]", "pretrain.until=3"], "pretrain.until=3: expected a whole number from 1 to 2"),
    ):
        cfg = compose("width=8", "layers=2", "gpus=0", "max_epochs=3", "pretrain=frozen", *change)
        with pytest.raises(UsageError, match=f"^{message}"):  # noqa: PT012
            assembled, _ = assemble(cfg, standing_corpus())
            cast(Any, assembled.callbacks.pretrain).setup(None, assembled, "fit")


def test_frozen_parts_do_not_move_until_their_epoch_and_then_do(tiny_corpus: Path, tmp_path: Path) -> None:
    """To the bit, running statistics of batch norm too, whatever else changes weights; the other parts always move."""

    class Watch(pl.Callback):
        def __init__(self) -> None:
            self.states: list[dict[str, torch.Tensor]] = []
            self.gradients: list[set[str]] = []

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.states.append({key: value.clone() for key, value in pl_module.model.state_dict().items()})

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            self.gradients.append(set())

        def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
            named = pl_module.model.named_parameters()
            self.gradients[-1] |= {key for key, weights in named if weights.grad is not None}

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            self.on_train_start(trainer, pl_module)

    watch, parts = Watch(), "pretrain.parts=[convolutions,norms.1,output.bias]"
    shrinking = ("optimizer.weight_decay=0.1", "penalty=l2", "gradient=constraint", "gradient.largest=0.1")
    words = ("pretrain=frozen", parts, "pretrain.until=2", "max_epochs=3", *shrinking)
    fit(tiny_corpus, tmp_path, *words, callbacks=(watch,))
    frozen = ("convolutions.", "norms.1.", "output.bias")
    tensors = {key for key in watch.states[0] if not key.endswith("_extra_state")}
    free = {key for key in tensors if not key.startswith(frozen)}
    assert {"norms.0.running_mean", "output.weight"} <= free
    assert {"convolutions.0.norm.running_variance", "norms.1.running_mean"} <= tensors - free
    moved = [
        {key for key in tensors if not torch.equal(before[key], after[key])}
        for before, after in zip(watch.states, watch.states[1:], strict=False)
    ]
    assert moved == [free, free, tensors]
    assert watch.gradients[:2] == [{key for key in free if "running" not in key}] * 2
    assert watch.gradients[2] == {key for key in tensors if "running" not in key}
