"""Two independent modules on two CPU cores, forwards and backwards.

A recurrence is a chain of products too small to share out among cores, so a second thread gains nothing within one
direction; the two directions of a bidirectional layer are independent, and each gets a core of its own.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import nn

Call = Callable[[], Any]


def both(
    first: nn.Module, second: nn.Module, x: torch.Tensor, y: torch.Tensor, lengths: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """first(x, lengths), second(y, lengths): at the same time on a CPU with several threads, with equal gradients."""
    if x.device.type != "cpu" or torch.get_num_threads() == 1:
        return first(x, lengths), second(y, lengths)
    if not torch.is_grad_enabled():
        return _at_once(_without_gradients(first, x, lengths), _without_gradients(second, y, lengths))
    weights = [*first.parameters(), *second.parameters()]
    return _Both.apply(first, second, lengths, x, y, *weights)


def _without_gradients(module: nn.Module, x: torch.Tensor, lengths: torch.Tensor) -> Call:
    def run() -> torch.Tensor:
        with torch.no_grad():  # what the caller's thread has switched off is still on in the helper
            return module(x, lengths)

    return run


class _Both(torch.autograd.Function):
    """Each module's own graph is built and walked in a thread of its own; only its ends join the outer graph."""

    @staticmethod
    def forward(
        ctx: Any,
        first: nn.Module,
        second: nn.Module,
        lengths: torch.Tensor,
        x: torch.Tensor,
        y: torch.Tensor,
        *weights: torch.Tensor,
    ) -> Any:
        inputs = [value.detach().requires_grad_() for value in (x, y)]
        modules = (first, second)

        def call(i: int) -> Call:
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
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        def call(i: int) -> Call:
            output, inputs = ctx.parts[i]
            return lambda: torch.autograd.grad(output, inputs, gradients[i], allow_unused=True)

        (x, *first), (y, *second) = _at_once(call(0), call(1))
        ctx.parts = None  # the inner graphs hold all activations: free them as the outer one would
        return None, None, None, x, y, *first, *second


def _at_once(here: Call, there: Call) -> tuple[Any, Any]:
    """Results of both calls, one in this thread and one in the helper, one core each."""
    threads = torch.get_num_threads()
    future: Future[Any] = _helper().submit(there)
    torch.set_num_threads(1)
    try:
        result = here()
    finally:
        torch.set_num_threads(threads)
    return result, future.result()


@cache
def _helper() -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(1, "second-direction")
    pool.submit(_one_thread).result()  # before this thread sets another number
    return pool


def _one_thread() -> None:
    """The number of threads belongs to the thread that sets it. But where torch first needs it, it takes over what any
    thread set last: on a busy machine, which starts this one late, that would be another number in some runs, and with
    it other last bits.
    """
    torch.set_num_threads(1)
    torch.get_num_threads()  # the first need
    torch.set_num_threads(1)
