"""The contract of recurrent layers; own recurrences and cells against torch's and their definitions."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from asr_ablations.components.model import directions
from asr_ablations.components.model.directions import KINDS, Directions, autocast_of_recurrences
from asr_ablations.components.model.ds2 import Lookahead
from asr_ablations.components.rnn.gru import GRU
from asr_ablations.components.rnn.lstm import LSTM
from tests.helpers.support import component, group_options

LENGTHS = torch.tensor([6, 0, 1, 4])
INPUTS, HIDDEN = 5, 4

every_variant = pytest.mark.parametrize("name", group_options("rnn"))
every_way = pytest.mark.parametrize("directions", KINDS)


def layer(name: str, directions: str) -> Directions:
    torch.manual_seed(1)
    return Directions(component("rnn", name), INPUTS, HIDDEN, directions=directions)


def inputs(lengths: torch.Tensor = LENGTHS, frames: int = 7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(len(lengths), frames, INPUTS, generator=generator)


@every_variant
@every_way
def test_alone_as_in_a_batch(name: str, directions: str) -> None:
    recurrence, x = layer(name, directions), inputs()
    together = recurrence(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = recurrence(x[row : row + 1, : max(1, length)], LENGTHS[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0, :length], atol=1e-5, rtol=0)


@every_variant
@every_way
def test_padding_is_not_read_and_zero_in_the_output(name: str, directions: str) -> None:
    recurrence, x = layer(name, directions), inputs()
    valid = torch.arange(7)[None] < LENGTHS[:, None]
    garbage = torch.where(valid[..., None], x, torch.full_like(x, 1e3))
    y = recurrence(x, LENGTHS)
    torch.testing.assert_close(recurrence(garbage, LENGTHS), y, atol=1e-6, rtol=0)
    assert y.shape == (4, 7, recurrence.size)
    assert (y[~valid] == 0).all()
    assert (y[valid].abs().sum(dim=-1) > 0).all()


@every_variant
@every_way
def test_gradients_are_finite_and_reach_every_parameter(name: str, directions: str) -> None:
    recurrence, x = layer(name, directions), inputs().requires_grad_()
    recurrence(x, LENGTHS).square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    for parameter_name, parameter in recurrence.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert torch.isfinite(parameter.grad).all(), parameter_name
        assert parameter.grad.abs().sum() > 0, parameter_name


@every_variant
def test_the_backward_direction_sees_the_future(name: str) -> None:
    x, changed = inputs(), inputs()
    changed[0, 5] += 1.0
    for kind in KINDS:
        recurrence = layer(name, kind)
        first_frame = recurrence(changed, LENGTHS)[0, 0] - recurrence(x, LENGTHS)[0, 0]
        assert bool(first_frame.abs().sum() > 1e-7) == (kind != "forward")


TORCHS_OWN = [
    name for name in group_options("rnn") if any(isinstance(m, nn.RNNBase) for m in layer(name, "sum").modules())
]
"""The others are cells of ours, which are compared below with these or with their own definitions."""


def gradients(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Gradients of a randomly weighted sum of y, by x and all parameters."""
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
    return list(torch.autograd.grad((y * weights).sum(), [x, *module.parameters()]))


@pytest.mark.parametrize("name", TORCHS_OWN)
@pytest.mark.parametrize("directions", ["sum", "concat"])
def test_two_directions_are_torchs_own_over_a_packed_sequence(name: str, directions: str) -> None:
    """To 1e-5 in outputs and gradients, with the same weights; inputs this small reach no clipped cell's ceiling."""

    def torch_cell(recurrence: Directions) -> nn.RNNBase:
        """torch's own two-directional layer with the weights of `recurrence`."""
        own = [next(m for m in direction.modules() if isinstance(m, nn.RNNBase)) for direction in recurrence.children()]
        options = {"nonlinearity": own[0].nonlinearity} if isinstance(own[0], nn.RNN) else {}
        cell = type(own[0])(INPUTS, HIDDEN, batch_first=True, bidirectional=True, **options)
        ours = {
            f"{key}{end}": w for c, end in zip(own, ("", "_reverse"), strict=True) for key, w in c.state_dict().items()
        }
        cell.load_state_dict(ours)
        return cell

    recurrence = layer(name, directions)
    cell = torch_cell(recurrence)
    lengths = torch.tensor([3, 7, 1, 5])  # torch packs no empty sequence
    x, x_packed = inputs(lengths).requires_grad_(), inputs(lengths).requires_grad_()
    packed = pack_padded_sequence(x_packed, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(cell(packed)[0], batch_first=True)
    if directions == "sum":
        expected = expected.unflatten(-1, (2, HIDDEN)).sum(dim=2)
    result = recurrence(x, lengths)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=0)
    for ours, theirs in zip(gradients(recurrence, x, result), gradients(cell, x_packed, expected), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@every_variant
def test_bfloat16_autocast_on_a_cpu_leaves_float32_results(name: str) -> None:
    recurrence, x = layer(name, "sum"), inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = recurrence(x, LENGTHS)
        from_half = recurrence(x.bfloat16(), LENGTHS)
    torch.testing.assert_close(result, recurrence(x, LENGTHS))  # the dtype too
    torch.testing.assert_close(from_half, recurrence(x.bfloat16().float(), LENGTHS))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("autocast", [torch.bfloat16, torch.float16])
def test_the_dtype_cudnn_runs_in(autocast: torch.dtype) -> None:
    """Autocast of bfloat16 would take float16, without a loss scale."""
    recurrence = layer("lstm", "forward").cuda()
    seen: list[torch.dtype] = []
    recurrence.forwards.register_forward_hook(lambda _, given, y: seen.append(y.dtype))
    with torch.autocast("cuda", dtype=autocast):
        recurrence(inputs().cuda(), LENGTHS)
    assert seen == [autocast]


def test_recurrences_follow_autocast_on_cuda_alone() -> None:
    for device, autocast in (("cuda", None), ("cuda", torch.bfloat16), ("cpu", torch.bfloat16)):
        before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
        try:  # what torch.autocast sets; the context itself warns where there is no CUDA
            torch.set_autocast_enabled(device, autocast is not None)
            torch.set_autocast_dtype(device, autocast or before[1])
            assert autocast_of_recurrences(device) == (autocast if device == "cuda" else None)
        finally:
            torch.set_autocast_enabled(device, before[0])
            torch.set_autocast_dtype(device, before[1])


@every_variant
def test_under_bfloat16_on_cuda_input_and_weights_are_bfloat16_over_float32_masters(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of CUDA, taken on a CPU."""

    def on_cuda(device: str) -> torch.dtype | None:
        return torch.bfloat16 if torch.is_autocast_enabled(device) else None

    monkeypatch.setattr("asr_ablations.components.model.directions.autocast_of_recurrences", on_cuda)
    recurrence, types = layer(name, "sum"), set()
    plain = gradients(recurrence, x := inputs().requires_grad_(), expected := recurrence(x, LENGTHS))
    for direction in recurrence.children():
        direction.register_forward_pre_hook(
            lambda module, given: types.update(tensor.dtype for tensor in (given[0], *module.parameters()))
        )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = recurrence(x, LENGTHS)
    assert types == {result.dtype} == {torch.bfloat16}
    torch.testing.assert_close(result.float(), expected, atol=0.05, rtol=0.05)
    for master, other in zip(gradients(recurrence, x, result.float()), plain, strict=True):
        assert master.dtype == torch.float32, "gradients reach the weights themselves"
        assert (master - other).norm() < 0.05 * other.norm() + 1e-3
    assert {p.dtype for p in recurrence.parameters()} == {torch.float32}


def test_the_lookahead_is_the_formula_of_amodei_et_al() -> None:
    """2016, §3.7: r_(t,i) = Σ_j W_(i,j) h_(t+j-1,i), j from 1 to τ + 1; nothing lies past an utterance."""
    torch.manual_seed(2)
    module, x = Lookahead(3, 2), torch.randn(len(LENGTHS), 7, 3)
    weights = module.convolve.weight[:, 0]  # (D, τ + 1)
    expected = torch.zeros_like(x)
    for row, length in enumerate(LENGTHS.tolist()):
        for t in range(length):
            for j in range(min(3, length - t)):
                expected[row, t] += weights[:, j] * x[row, t + j]
    torch.testing.assert_close(module(x, LENGTHS), expected)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_an_evaluation_takes_two_threads_and_a_training_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = directions.call_in_two_threads
    monkeypatch.setattr(directions, "call_in_two_threads", lambda *values: (calls.append(1), real(*values))[1])
    layer = directions.Directions(LSTM, 6, 4, directions="sum").eval()
    x, lengths = torch.randn(2, 5, 6), torch.tensor([5, 3])
    alone = layer(x, lengths)
    assert not calls
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            result = layer(x.clone(), lengths)  # made inside: a tensor of inference mode can be part of no graph at all
        assert result.grad_fn is None
        torch.testing.assert_close(result, alone.detach(), atol=1e-6, rtol=1e-6)
    assert len(calls) == 2
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_the_second_direction_arrives() -> None:
    x, lengths = torch.randn(2, 5, 6), torch.tensor([5, 5])
    with pytest.raises(RuntimeError, match=r"cannot be multiplied|inner product|input.size"):
        directions.call_in_two_threads(GRU(6, 4), GRU(5, 4), x, x, lengths)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_the_second_direction_has_one_thread_whatever_this_one_sets_meanwhile() -> None:
    """Where torch first needs the number, it takes what any thread set last: that must not be this thread's."""
    pool = directions._helper.__wrapped__()
    assert not pool.submit(torch.is_grad_enabled).result()
    torch.set_num_threads(2)
    assert pool.submit(torch.get_num_threads).result() == 1
    assert torch.get_num_threads() == 2
    pool.shutdown()


VALUES, UNITS, FULL = 6, 5, torch.tensor([40, 40, 40])


def cell(name: str, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    module: nn.Module = component("rnn", name)(VALUES, UNITS)
    return module


def loud(frames: int = 40, scale: float = 2.0) -> torch.Tensor:
    """(B, T, D), large enough to saturate some gates."""
    return (scale * torch.randn(3, frames, VALUES, generator=torch.Generator().manual_seed(4))).requires_grad_()


@pytest.mark.parametrize("name", ["lstm_basic", "lstm_fused"])
def test_it_is_torchs_lstm_to_1e_5_with_its_weights_and_starts_from_them(name: str) -> None:
    """In outputs and gradients, and the weights load under the names that they have in rnn=lstm; from the same seed, so
    that an ablation over implementations has nothing else in it.
    """

    def with_gradients(module: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
        """Output, and the gradients of a random weighting of it by x and every parameter."""
        y = module(x, FULL)
        weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(5))
        return [y, *torch.autograd.grad((y * weights).sum(), [x, *module.parameters()])]

    theirs, ours = cell("lstm"), cell(name, seed=2)
    torch.testing.assert_close(cell(name).state_dict(), theirs.state_dict(), atol=0, rtol=0)
    ours.load_state_dict(theirs.state_dict())
    for result, expected in zip(with_gradients(ours, loud()), with_gradients(theirs, loud()), strict=True):
        torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_the_clipped_rnn_is_its_formula(scale: float) -> None:
    module = cell("rnn_relu")
    x, x_reference = loud(scale=scale), loud(scale=scale)
    weights, hidden, outputs = dict(module.named_parameters()), torch.zeros(len(x), UNITS), []
    for t in range(x.shape[1]):  # Ambroszczyk2019 §1.2 and §2.4: h = min(max(W x + U h + b, 0), ceiling)
        past = hidden @ weights["cell.weight_hh_l0"].T + weights["cell.bias_hh_l0"]
        current = x_reference[:, t] @ weights["cell.weight_ih_l0"].T + weights["cell.bias_ih_l0"]
        hidden = torch.minimum(torch.relu(current + past), torch.tensor(20.0))
        outputs.append(hidden)
    result, expected = module(x, FULL), torch.stack(outputs, dim=1)
    torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-5)
    assert (result.max() == 20.0) == (scale > 1), "the ceiling of Ambroszczyk2019 §1.2 is reached by loud inputs only"
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(6))
    ours, theirs = (torch.autograd.grad((y * weights).sum(), v)[0] for y, v in ((result, x), (expected, x_reference)))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("frames", "scale", "tolerance"), [(60, 2.0, 1e-5), (1000, 2.0, 1e-3), (60, 100.0, 1e-3)])
def test_min_grus_parallel_scan_is_its_sequential_form(frames: int, scale: float, tolerance: float) -> None:
    """At a thousand frames and with gates wide open, too, where float32 loses digits as the docstring says."""
    module, x = cell("min_gru"), loud(frames, scale)
    result = module(x, FULL)
    gradient = torch.autograd.grad(result.sum(), x)[0]
    assert result.dtype == torch.float32
    assert torch.isfinite(gradient).all()
    x_reference = x.detach().requires_grad_()
    # Feng et al. 2024, §3.1.3 and appendix B, a frame after the other, in float64
    update, candidate = (layer.double()(x_reference.double()) for layer in (module.update, module.candidate))
    kept, positive = 1 - update.sigmoid(), torch.where(candidate >= 0, candidate + 0.5, candidate.sigmoid())
    hidden, outputs = torch.zeros(len(x), UNITS, dtype=torch.float64), []
    for t in range(frames):
        hidden = kept[:, t] * hidden + (1 - kept[:, t]) * positive[:, t]
        outputs.append(hidden)
    expected = torch.stack(outputs, dim=1)
    torch.testing.assert_close(result.double(), expected, atol=tolerance, rtol=tolerance)
    expected_gradient = torch.autograd.grad(expected.sum(), x_reference)[0]
    largest = expected_gradient.abs().max().item()
    torch.testing.assert_close(gradient, expected_gradient, atol=2 * tolerance * largest, rtol=tolerance)


EVEN = 6


@pytest.mark.parametrize(("copies", "scale"), [(1, 1.0), (4, 1.0), (4, 10.0)])
def test_the_associative_lstm_is_its_equations(copies: int, scale: float) -> None:
    """Danihelka et al. 2016 in torch's own complex numbers, a frame and a copy after the other, in float64, where a
    permutation is a product with its matrix. Loud inputs reach the bound of keys and values: a modulus of 1.
    """
    torch.manual_seed(1)
    module: nn.Module = component("rnn", "associative_lstm", copies=copies)(VALUES, EVEN)
    x = loud(scale=scale).detach()
    with torch.no_grad():
        result = module(x, FULL)
    half, outputs = EVEN // 2, []
    weights = {name: value.double() for name, value in module.state_dict().items()}
    matrices = [torch.eye(half, dtype=torch.complex128)[order] for order in module.permutations]  # type: ignore[operator, union-attr]
    hidden, traces = torch.zeros(len(x), EVEN, dtype=torch.float64), [torch.zeros(len(x), half) + 0j for _ in matrices]

    def number(sums: torch.Tensor) -> torch.Tensor:
        both = torch.complex(sums[:, :half], sums[:, half:])
        return both / both.abs().clamp(min=1)

    for frame in x.double().unbind(1):
        sums = [
            frame @ weights[f"inputs.{part}.weight"].T
            + weights[f"inputs.{part}.bias"]
            + hidden @ weights[f"recurrent.{part}.weight"].T
            for part in range(6)
        ]
        forget, enter, leave = (gate.sigmoid() for gate in sums[:3])
        key, query, value = map(number, sums[3:])
        traces = [
            forget * trace + (key @ matrix.T) * (enter * value) for trace, matrix in zip(traces, matrices, strict=True)
        ]
        read = sum((query @ matrix.T) * trace for trace, matrix in zip(traces, matrices, strict=True)) / len(traces)
        read = read / read.abs().clamp(min=1)
        hidden = torch.cat([leave * read.real, leave * read.imag], dim=1)
        outputs.append(hidden)
    expected = torch.stack(outputs, dim=1)
    torch.testing.assert_close(result.double(), expected, atol=1e-5, rtol=1e-5)
    assert (result.unflatten(2, (2, -1)).square().sum(dim=2) <= 1 + 1e-6).all()
