"""Two independent modules on two CPU cores, or in two streams of a GPU, in the forward and the backward pass.

A recurrence is a chain of products too small to divide among cores, so a second thread gains nothing within one
direction. The two directions of a bidirectional layer are independent, and each gets a core of its own.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import torch
from torch import nn

Result = TypeVar("Result")
Other = TypeVar("Other")


def both(
    first: nn.Module, second: nn.Module, x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """first(x, lengths) and second(y, lengths), computed at the same time: by two threads of a CPU that has several, or
    in two streams of a GPU.

    The results and gradients are those of two calls in turn.
    """
    if x.device.type == "cuda":
        return in_two_streams(first, second, x, y, lengths)
    if x.device.type != "cpu" or torch.get_num_threads() == 1:
        return first(x, lengths), second(y, lengths)
    if not torch.is_grad_enabled():
        return _at_once(_without_gradients(first, x, lengths), _without_gradients(second, y, lengths))
    weights = [*first.parameters(), *second.parameters()]
    return _Both.apply(first, second, lengths, x, y, *weights)


def in_two_streams(
    first: nn.Module, second: nn.Module, x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The second call beside the first: one recurrence alone, a product of a frame at a time, leaves a GPU idle.

    Autograd takes the backward passes in the same streams, and makes them wait for one another. Memory that one stream
    has allocated and the other reads must not be given away before: record_stream says so to the allocator.
    """
    main, side = torch.cuda.current_stream(x.device), _side_stream(x.device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        second_output = second(y, lengths)
    for value in (y, *second.parameters()):  # the weights may be copies of this step alone
        value.record_stream(side)
    first_output = first(x, lengths)
    main.wait_stream(side)
    second_output.record_stream(main)
    return first_output, second_output


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _without_gradients(module: nn.Module, x: torch.Tensor, lengths: torch.Tensor) -> Callable[[], torch.Tensor]:
    def run() -> torch.Tensor:
        with torch.no_grad():  # gradients are switched off for the caller's thread only
            return module(x, lengths)

    return run


class _Both(torch.autograd.Function):
    """Builds and walks each module's graph in a thread of its own; only inputs and outputs join the outer graph."""

    @staticmethod
    def forward(
        ctx: Any,
        first: nn.Module,
        second: nn.Module,
        lengths: torch.Tensor,
        x: torch.Tensor,
        y: torch.Tensor,
        *weights: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        inputs = [value.detach().requires_grad_() for value in (x, y)]
        modules = (first, second)

        def call(i: int) -> Callable[[], torch.Tensor]:
            def run() -> torch.Tensor:
                with torch.enable_grad():
                    return modules[i](inputs[i], lengths)

            return run

        outputs = _at_once(call(0), call(1))
        ctx.parts = [
            (output, [value, *module.parameters()])
            for output, value, module in zip(outputs, inputs, modules, strict=True)
        ]
        return tuple(output.detach() for output in outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        def call(i: int) -> Callable[[], tuple[torch.Tensor, ...]]:
            output, inputs = ctx.parts[i]
            return lambda: torch.autograd.grad(output, inputs, gradients[i], allow_unused=True)

        (x, *first), (y, *second) = _at_once(call(0), call(1))
        ctx.parts = None  # the inner graphs hold all activations: free them as the outer graph would
        return None, None, None, x, y, *first, *second


def _at_once(first: Callable[[], Result], second: Callable[[], Other]) -> tuple[Result, Other]:
    """The results of both calls: the first in this thread, the second in the helper thread, with one core each."""
    threads = torch.get_num_threads()
    future: Future[Other] = _helper().submit(second)
    torch.set_num_threads(1)
    try:
        result = first()
    finally:
        torch.set_num_threads(threads)
    return result, future.result()


@cache
def _helper() -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(1, "second-direction")
    pool.submit(_one_thread).result()  # before this thread sets another number
    return pool


def _one_thread() -> None:
    """Set one thread of torch for the helper thread.

    The number of threads belongs to the thread that sets it. But when torch first needs it, it takes over what any
    thread set last. On a busy machine, which starts this thread late, that would be another number in some runs, and
    with it other last bits.
    """
    torch.set_num_threads(1)
    torch.get_num_threads()  # the first need
    torch.set_num_threads(1)
