"""Is one recogniser better than another? Verdicts over seeds and speakers, for systems of any toolkit.

`compare` takes hypotheses and references as lists, dicts or files. `asr_verdicts.comparison.compare` takes records of
runs. All rates and differences are fractions: 0.01 is one point of WER.
"""

from typing import TYPE_CHECKING, Any

from asr_verdicts.version import VERSION

if TYPE_CHECKING:
    from asr_verdicts.api import Result, compare

__version__ = VERSION
__all__ = ["Result", "__version__", "compare"]


def __getattr__(name: str) -> Any:
    if name in ("Result", "compare"):  # imported on first use, because scipy is slow
        from asr_verdicts import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
