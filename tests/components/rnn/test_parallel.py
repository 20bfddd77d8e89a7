"""Two directions on two cores give what one after the other gives."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from asr_ablations.components.model import directions
from asr_ablations.components.model.directions import _helper, both, flipped, reversal
from asr_ablations.components.rnn.gru import GRU
from asr_ablations.components.rnn.lstm import LSTM


def run(kind: type[nn.Module], threads: int) -> list[torch.Tensor]:
    """Outputs and all gradients with a number of threads."""
    torch.manual_seed(3)
    first, second = kind(6, 4), kind(6, 4)
    x = torch.randn(3, 7, 6, requires_grad=True)
    torch.set_num_threads(threads)
    y, z = both(first, second, x, x.flip(1), torch.tensor([7, 5, 2]))
    (y.square().sum() + (y * z).sum()).backward()
    assert torch.get_num_threads() == threads
    return [y, z, x.grad, *(p.grad for module in (first, second) for p in module.parameters())]


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("kind", [GRU, LSTM])
def test_outputs_and_gradients_are_those_of_one_thread(kind):
    for one, two in zip(run(kind, 1), run(kind, 2), strict=True):
        torch.testing.assert_close(two, one, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_nothing_is_kept(mode):
    first, second = GRU(6, 4), GRU(6, 4)
    torch.set_num_threads(2)
    with mode():
        x = torch.randn(2, 5, 6)  # made inside: a tensor of inference mode can be part of no graph at all
        outputs = both(first, second, x, x, torch.tensor([5, 5]))
        expected = first(x, None), second(x, None)
    for results, wanted in zip(outputs, expected, strict=True):
        assert results.grad_fn is None
        torch.testing.assert_close(results, wanted)


def test_an_error_in_the_second_direction_arrives():
    torch.set_num_threads(2)
    with pytest.raises(RuntimeError, match=r"cannot be multiplied|inner product"):
        both(GRU(6, 4), GRU(5, 4), torch.randn(2, 5, 6), torch.randn(2, 5, 6), torch.tensor([5, 5]))


def test_the_second_direction_has_one_thread_whatever_this_one_sets_meanwhile() -> None:
    """Where torch first needs the number, it takes what any thread set last: that must not be this thread's."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    pool = _helper.__wrapped__()
    torch.set_num_threads(2)
    try:
        assert pool.submit(torch.get_num_threads).result() == 1
        assert torch.get_num_threads() == 2
    finally:
        pool.shutdown()
        torch.set_num_threads(before)


def test_a_flip_is_its_own_gradient_bit_for_bit() -> None:
    """Against torch's gather, whose gradient is added up in zeros."""
    lengths = torch.tensor([5, 0, 1, 3])
    flip = reversal(lengths, 5, torch.device("cpu"))
    x, weights = torch.randn(4, 5, 3, requires_grad=True), torch.randn(4, 5, 3)
    y = flipped(x, flip)
    expected = x.gather(1, flip[..., None].expand_as(x))
    assert torch.equal(y, expected)
    assert torch.equal(flipped(y, flip), x)
    (gradient,) = torch.autograd.grad(y, x, weights)
    (wanted,) = torch.autograd.grad(expected, x, weights)
    assert torch.equal(gradient, wanted)
    assert y[0, :, 0].tolist() == x[0, :, 0].flip(0).tolist()


def test_streams_wait_for_each_other_and_keep_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order in which a GPU is asked: streams are pretended, the layers are not."""
    events: list[object] = []
    current = ["main"]

    class Stream:
        def __init__(self, name: str) -> None:
            self.name = name

        def wait_stream(self, other: "Stream") -> None:
            events.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def within(stream: Stream) -> Iterator[None]:
        current.append(stream.name)
        yield
        current.pop()

    class Layer(nn.Linear):
        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            events.append(f"{'first' if self is first else 'second'} in {current[-1]}")
            return super().forward(x)

    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream("main"))
    monkeypatch.setattr(torch.cuda, "stream", within)
    monkeypatch.setattr(directions, "_side_stream", lambda device: Stream("side"))
    kept = lambda tensor, stream: events.append((tensor.data_ptr(), stream.name))  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "record_stream", kept)
    first, second, x, y = Layer(3, 2), Layer(3, 2), torch.randn(1, 4, 3), torch.randn(1, 4, 3)
    one, other = directions.in_two_streams(first, second, x, y, torch.tensor([4]))
    assert events == [
        "side waits for main",
        "second in side",
        *[(value.data_ptr(), "side") for value in (y, second.weight, second.bias)],
        "first in main",
        "main waits for side",
        (other.data_ptr(), "main"),
    ]
    assert torch.equal(one, nn.functional.linear(x, first.weight, first.bias))
