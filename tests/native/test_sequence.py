"""Recurrent layers, batch norm, dropout and CTC against torch's in float64, values and gradients."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import ctc_loss

from asr_ablations.components.model.directions import Directions
from asr_ablations.components.model.dropout import Dropout
from asr_ablations.components.norm.batch import BatchNorm
from asr_ablations.components.rnn.gru import GRU
from asr_ablations.components.rnn.lstm import LSTM
from asr_ablations.components.rnn.rnn import RNN
from asr_ablations.components.rnn.rnn_relu import RNNClippedReLU
from asr_ablations.native import extension, operations

FRAMES = {
    "image": ((4, 9, 5, 16), [9, 0, 1, 6]),
    "rows": ((3, 8, 97), [8, 3, 5]),
    "one channel": ((2, 6, 3, 1), [6, 2]),
    "wide": ((2, 3, 700), [3, 1]),
}


@pytest.mark.parametrize("low", [-math.inf, 0.0])
@pytest.mark.parametrize("name", FRAMES)
def test_batch_norm_is_that_of_float64(target: str, name: str, low: float) -> None:
    shape, lengths = FRAMES[name]
    torch.manual_seed(1)
    x, numbers = 3 * torch.randn(shape) + 5, torch.tensor(lengths)
    weight, results = torch.randn(shape), []
    high = 1.0 if low == 0 else math.inf
    for exact in (False, True):
        norm = BatchNorm(shape[2:], momentum=0.1, epsilon=1e-5).train()
        with torch.no_grad():
            norm.weight.copy_(torch.linspace(0.5, 1.5, shape[-1]))
            norm.bias.copy_(torch.linspace(-0.2, 0.3, shape[-1]))
        y = (x.double() if exact else x).requires_grad_()
        if exact:
            norm = norm.double()
            mask = (torch.arange(shape[1]) < numbers[:, None]).view(*shape[:2], *[1] * (len(shape) - 2))
            valid = y[mask.expand(shape)].view(-1, shape[-1])
            mean, variance = valid.mean(0), valid.var(0, unbiased=False)
            z = ((y - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias).clamp(low, high) * mask
            running = [0.1 * mean.detach(), 0.9 + 0.1 * valid.var(0).detach()]
        else:
            assert norm.fuses(y)
            z = norm(y, numbers, low, high)
            running = [norm.running_mean, norm.running_variance]
        gradients = torch.autograd.grad((z * weight).sum(), [y, norm.weight, norm.bias])
        results.append([z.detach(), *gradients, *running])
    for number, (mine, reference) in enumerate(zip(*results, strict=True)):
        allowed = 3e-5 * max(1.0, float(reference.abs().max()))
        assert float((mine - reference).abs().max()) <= allowed, (name, number)


def test_dropout_drops_by_its_rate_and_its_gradient_by_the_same_mask(target: str) -> None:
    torch.manual_seed(3)
    x = torch.ones(1000, 997, requires_grad=True)
    y = Dropout(0.3).train()(x)
    kept = y != 0
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    assert abs(float(kept.float().mean()) - 0.7) < 4 * math.sqrt(0.21 / x.numel())
    for dimension in (0, 1):  # no row and no column is worse than chance would have it
        rates = kept.float().mean(dimension)
        assert float((rates - 0.7).abs().max()) < 6 * math.sqrt(0.21 / 997)
    assert abs(float((kept[:, 1:] & kept[:, :-1]).float().mean()) - 0.49) < 2e-3
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, y.detach())
    state = torch.get_rng_state()
    first, second = Dropout(0.3).train()(x), Dropout(0.3).train()(x)
    torch.set_rng_state(state)
    assert torch.equal(first, Dropout(0.3).train()(x))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("scale", [1.0, 12.0])  # 12: a sure model, whose paths lie hundreds of nats apart
def test_ctc_is_that_of_float64(target: str, scale: float) -> None:
    def losses(lengths: list[int], labels: list[list[int]], T: int, V: int, scale: float) -> None:
        torch.manual_seed(T + V)
        logits = scale * torch.randn(len(lengths), T, V)
        counts, targets = (
            torch.tensor([len(row) for row in labels]),
            torch.tensor([label for row in labels for label in row], dtype=torch.long),
        )
        numbers, weights = torch.tensor(lengths), torch.rand(len(lengths)) + 0.5
        results = []
        for exact in (False, True):
            x = (logits.double() if exact else logits).requires_grad_()
            log_probs = x.log_softmax(-1)
            if exact:
                nats = ctc_loss(log_probs.transpose(0, 1), targets, numbers, counts, blank=0, reduction="none")
            else:
                assert operations.usable(log_probs)
                nats = operations.ctc(log_probs, targets, numbers, counts)
            possible = nats.isfinite()
            (gradient,) = torch.autograd.grad((nats * weights)[possible].sum() + 0 * x.sum(), x)
            results.append((nats.detach().double(), gradient.double()))
        (mine, by_mine), (exact_, by_exact) = results
        assert torch.equal(mine.isinf(), exact_.isinf())
        finite = exact_.isfinite()
        torch.testing.assert_close(mine[finite], exact_[finite], rtol=1e-6, atol=2e-5)
        torch.testing.assert_close(by_mine[finite], by_exact[finite], rtol=0, atol=2e-5)

    generator = torch.Generator().manual_seed(0)

    def drawn(count: int, most: int) -> list[int]:
        return torch.randint(1, most + 1, (count,), generator=generator).tolist()

    losses([23, 9, 4, 17, 1, 0, 0], [[1, 1, 2, 5, 5, 3, 1], [2, 3, 2, 3], [], [4], [2], [], [3]], 23, 6, scale)
    losses([400, 350, 12], [drawn(120, 28), drawn(150, 28), drawn(11, 28)], 400, 29, scale)
    losses([1500], [drawn(300, 3)], 1500, 4, scale)  # long, with many repeats
    losses([7, 6], [[2, 2, 2, 2], [2, 2, 2, 2]], 7, 3, scale)  # one path alone, and none
    losses([2, 3, 2], [[1, 2], [1, 2, 3], [1, 1]], 3, 4, scale)
    losses([30], [drawn(12, 600)], 30, 700, scale)


def test_ctc_finds_paths_that_are_all_but_impossible(target: str) -> None:
    """A sure and wrong model: 1e-3000 as likely as silence, and no zero for that."""
    log_probs = torch.full((1, 60, 3), -120.0)
    log_probs[..., 0] = 0.0
    x = log_probs.clone().requires_grad_()
    labels, counts = torch.tensor([1, 2] * 28), torch.tensor([56])
    nats = operations.ctc(x, labels, torch.tensor([60]), counts)
    exact = ctc_loss(log_probs.double().transpose(0, 1), labels, torch.tensor([60]), counts, reduction="none")
    assert nats.item() == pytest.approx(float(exact), rel=1e-6)
    (gradient,) = torch.autograd.grad(nats.sum(), x)
    assert float(gradient.sum()) == pytest.approx(-60, rel=1e-4)  # in each frame something is occupied


def test_ctc_says_what_has_no_number(target: str) -> None:
    x = torch.randn(2, 3, 4).log_softmax(-1).requires_grad_()
    nats = operations.ctc(x, torch.tensor([1, 1, 1, 2]), torch.tensor([3, 3]), torch.tensor([3, 1]))
    assert math.isinf(nats[0].item())
    assert math.isfinite(nats[1].item())
    (gradient,) = torch.autograd.grad(nats.sum(), x)
    assert gradient[0].isnan().all()
    assert gradient[1].isfinite().all()
    broken = torch.randn(1, 3, 4)
    broken[0, 1] = float("nan")
    label, frames, one = torch.tensor([1]), torch.tensor([3]), torch.tensor([1])
    assert math.isnan(operations.ctc(broken.requires_grad_(), label, frames, one).item())
    for targets, counts in (([4], [1]), ([0], [1]), ([1], [2])):
        with pytest.raises(ValueError, match="expected"):
            operations.ctc(x, torch.tensor(targets), torch.tensor([3, 3]), torch.tensor([*counts, 0]))


def test_threads_change_no_bit_of_norm_and_ctc(native: str) -> None:
    x, lengths = torch.randn(6, 400, 32, 32), torch.tensor([400, 3, 0, 400, 22, 1])
    assert x.numel() >= 2**21  # with fewer numbers, a norm would use one thread
    log_probs = torch.randn(6, 400, 9).log_softmax(-1)
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        norm, y = BatchNorm([32, 32], momentum=0.1, epsilon=1e-5).train(), x.clone().requires_grad_()
        z = norm(y, lengths, 0.0, 20.0)
        p = log_probs.clone().requires_grad_()
        nats = operations.ctc(p, torch.arange(1, 9), lengths, torch.tensor([4, 1, 0, 2, 1, 0]))
        gradients = torch.autograd.grad((z * x).sum() + nats.sum(), [y, p, norm.weight])
        results.append(torch.cat([value.detach().flatten() for value in (z, nats, *gradients)]))
    assert torch.equal(*results)
    assert extension.resolved() == native


CELLS = {
    "lstm": LSTM,
    "gru": GRU,
    "tanh": lambda d, h: RNN(d, h, nonlinearity="tanh"),
    "relu": lambda d, h: RNN(d, h, nonlinearity="relu"),
    "clipped": lambda d, h: RNNClippedReLU(d, h, ceiling=0.5),
}
SHAPES = {  # B, T, D, H, directions, threads, lengths
    "odd": (3, 7, 5, 6, "sum", 1, [7, 0, 1]),
    "wide": (5, 9, 33, 97, "concat", 3, [3, 9, 1, 0, 9]),
    "one": (1, 1, 1, 1, "sum", 2, [1]),
    "empty": (2, 4, 3, 50, "forward", 2, [0, 0]),
    "nobody": (0, 3, 4, 5, "sum", 1, []),
    "no frames": (2, 0, 4, 5, "sum", 1, [0, 0]),
    "even": (9, 12, 48, 64, "sum", 4, [12, 11, 12, 5, 0, 7, 12, 2, 12]),
    "beyond": (2, 4, 3, 17, "concat", 1, [9, 4]),  # a length beyond the frames is cut
}
ERROR = {False: 5e-6, True: 2e-2}
"""Largest error of values and, relative to the largest, of gradients: float32, and products in bfloat16 (8 bits)."""


def outcome(layer: Directions, x: torch.Tensor, lengths: torch.Tensor, weight: torch.Tensor, bfloat16: bool) -> Any:
    """Values, and gradients of x and the weights."""
    x = x.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        y = layer(x, lengths)
    gradients = torch.autograd.grad((y * weight).sum() + 0 * x.sum(), [x, *layer.parameters()], allow_unused=True)
    return y.detach(), [torch.zeros(()) if g is None else g for g in gradients]


def exact(layer: Directions, x: torch.Tensor, lengths: torch.Tensor, weight: torch.Tensor) -> Any:
    """In float64, each utterance alone, cut to its length."""
    layer = copy.deepcopy(layer).double()
    x = x.double().requires_grad_()
    rows = []
    for row, length in zip(x, lengths.clamp(max=x.shape[1]).tolist(), strict=True):
        y = x.new_zeros(x.shape[1], layer.size)
        if length:
            y = torch.cat([layer(row[None, :length], torch.tensor([length]))[0], y[length:]])
        rows.append(y)
    y = torch.stack(rows) if rows else x.new_zeros(0, x.shape[1], layer.size)
    total = (y * weight.double()).sum() + 0 * x.sum() + 0 * sum(p.sum() for p in layer.parameters())
    return y.detach(), torch.autograd.grad(total, [x, *layer.parameters()])


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_values_and_gradients_are_those_of_float64(target: str, cell: str, bfloat16: bool) -> None:
    for name, (B, T, D, H, directions, threads, lengths) in SHAPES.items():
        torch.manual_seed(len(name))
        torch.set_num_threads(threads)
        layer = Directions(CELLS[cell], D, H, directions=directions).train()
        x, numbers = torch.randn(B, T, D), torch.tensor(lengths, dtype=torch.long)
        weight = torch.randn(B, T, layer.size)
        y, gradients = outcome(layer, x, numbers, weight, bfloat16)
        expected, expected_gradients = exact(layer, x, numbers, weight)
        torch.testing.assert_close(y.double(), expected, rtol=0, atol=ERROR[bfloat16], msg=f"{name}: values")
        for gradient, reference in zip(gradients, expected_gradients, strict=True):
            difference, size = (gradient - reference).abs(), reference.abs()
            if not reference.numel():
                continue
            if bfloat16 and cell in ("relu", "clipped"):  # single ones jump where rounding moves a sum over a bound
                assert float(difference.square().mean()) <= 0.1**2 * float(size.square().mean()), f"{name}: gradients"
            else:
                assert float(difference.max()) <= ERROR[bfloat16] * max(1e-2, float(size.max())), f"{name}: gradients"


def test_the_library_runs(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the others do not hold torch against torch."""
    calls = []
    monkeypatch.setattr("asr_ablations.native.operations._call", lambda name, *_: calls.append(name))
    layer = Directions(LSTM, 3, 4, directions="sum").train()
    layer(torch.randn(2, 5, 3), torch.tensor([5, 2]))
    assert calls == ["recurrence_forward"]


def test_threads_and_batch_mates_change_no_bit(target: str) -> None:
    layer = Directions(LSTM, 20, 24, directions="sum").train()
    x, lengths = torch.randn(7, 11, 20), torch.tensor([11, 3, 0, 11, 7, 1, 9])
    weight = torch.randn(7, 11, 24)
    results = []
    for threads in (1, 2, 3, 8):
        torch.set_num_threads(threads)
        y, gradients = outcome(layer, x, lengths, weight, False)
        results.append(torch.cat([y.flatten(), *(g.flatten() for g in gradients)]))
    assert all(torch.equal(results[0], other) for other in results[1:])
    y, _ = outcome(layer, x, lengths, weight, False)
    alone, _ = outcome(layer, x[4:5, :7], lengths[4:5], weight[4:5, :7], False)
    assert torch.equal(alone[0], y[4, :7])


def test_a_nan_stays_one(target: str) -> None:
    for make in CELLS.values():
        layer = Directions(make, 3, 4, directions="sum").train()
        x = torch.randn(2, 5, 3)
        x[0, 2, 1] = float("nan")
        y, gradients = outcome(layer, x, torch.tensor([5, 5]), torch.ones(2, 5, 4), False)
        assert y[0, 2].isnan().all()
        assert not y[1].isnan().any()
        assert gradients[1].isnan().any()


def test_targets_agree_in_bfloat16() -> None:
    """Without the instruction operands are rounded and multiplied in float32: only the order of sums differs."""
    results = []
    torch.manual_seed(0)
    layer, x = Directions(GRU, 30, 40, directions="sum").train(), torch.randn(4, 9, 30)
    for name in extension.TARGETS:
        try:
            extension.load(name)
        except extension.NativeError:
            continue
        extension.use(name)
        results.append(outcome(layer, x, torch.tensor([9, 9, 4, 1]), torch.ones(4, 9, 40), True)[0])
    if len(results) < 2:
        pytest.skip("one target alone here")
    for other in results[1:]:
        torch.testing.assert_close(results[0], other, rtol=0, atol=2e-3)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU])
def test_weights_that_change_before_the_backward_pass_are_refused(native: str, layer: type) -> None:
    """As torch refuses them: gradients would be of other weights."""
    directions = Directions({nn.LSTM: LSTM, nn.GRU: GRU}[layer], 3, 4, directions="sum").train()
    y = directions(torch.randn(2, 5, 3), torch.tensor([5, 2])).sum()
    with torch.no_grad():
        next(directions.parameters()).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
