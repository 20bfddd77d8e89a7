"""Triton's kernels without a GPU: run by numpy, program after program."""

from types import ModuleType

import pytest


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
