"""Triton's kernels without a GPU: run by numpy, program after program."""

from collections.abc import Callable
from types import ModuleType

import pytest

_WARNINGS = (
    "Conversion of an array with ndim > 0:DeprecationWarning",
    "divide by zero encountered in log:RuntimeWarning",
)


def without_its_warnings(test: Callable[..., None]) -> Callable[..., None]:
    """For tests with `interpret`: what numpy says of a loop's bounds, and of the logarithm of 0."""
    for warning in _WARNINGS:
        test = pytest.mark.filterwarnings(f"ignore:{warning}")(test)
    return test


def interpret(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Until the end of the test, the kernels of a module take tensors on the CPU. Triton itself would be told so by the
    environment, before it is imported.
    """
    tl = pytest.importorskip("triton.language")
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    kernels = [(module, name) for name, value in vars(module).items() if isinstance(value, JITFunction)]
    for owner, name in [*kernels, (tl, "sum"), (tl, "max")]:
        monkeypatch.setattr(owner, name, InterpretedFunction(getattr(owner, name).fn))
