"""The languages of the built-in corpus: one module per language, named by its code.

A module has a function `language()`, which returns its Language. The alphabet is conf/alphabet/<code>.yaml.
"""

from functools import lru_cache
from importlib import import_module
from pathlib import Path

from asr_ablations.synthesis.grammar import Language


def codes() -> list[str]:
    """Return the codes of all languages, in alphabetical order."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")


@lru_cache
def load_language(code: str) -> Language:
    """Return a language; the other ones are not imported. Raises ValueError for a code without a module."""
    if code not in codes():
        raise ValueError(f"data.language={code!r} is not one of {', '.join(codes())}")
    language: Language = import_module(f"{__name__}.{code}").language()
    return language
