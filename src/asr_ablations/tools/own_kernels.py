"""Kernels of our own on a GPU, taken only where they give the numbers of a reference there."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import library

TOLERANCE = 1e-3
"""Largest difference from the reference. float32 sums in another order differ by 1e-6 or so; a wrong kernel by 1."""


def trusted(
    load: Callable[[], Mapping[str, Any]],
    operators: library.Library,
    difference: Callable[[], float],
    otherwise: str,
) -> bool:
    """Put the kernels that `load` imports behind the operators, for CUDA, and return whether they can be used:
    `difference` measures how far they are from the reference.

    A machine without Triton or a compiler goes on without them: `otherwise` says what that means, in a line with the
    reason.
    """
    try:
        for name, kernel in load().items():
            operators.impl(name, kernel, "CUDA")
        off = difference()
        reason = "" if off <= TOLERANCE else f"off by {off:.1g}"
    except Exception as error:  # whatever a compiler may raise: no reason to end a training
        reason = str(error).partition("\n")[0] or type(error).__name__
    if reason:
        print(f"{otherwise}: {reason}", file=sys.stderr)
    return not reason
