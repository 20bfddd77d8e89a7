"""Decide whether one speech recogniser is better than another, for systems from any toolkit.

`compare` accepts hypotheses and references as lists, dicts or files. `asr_verdicts.comparison.compare` accepts run
records instead. All error rates and differences are fractions: 0.01 is one percentage point of WER.
"""

from typing import TYPE_CHECKING, Any

from asr_verdicts.version import VERSION

if TYPE_CHECKING:
    from asr_verdicts.api import Result, compare

__version__ = VERSION
__all__ = ["Result", "__version__", "compare"]


def __getattr__(name: str) -> Any:
    if name in ("Result", "compare"):  # imported on first use, because importing scipy is slow
        from asr_verdicts import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
