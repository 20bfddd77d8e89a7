"""The languages that the built-in corpus can be spoken in: a module each, named by the language's code.

A module has `language()`, which gives its Language. Its alphabet is conf/alphabet/<code>.yaml.
"""

from functools import lru_cache
from importlib import import_module
from pathlib import Path

from asr_ablations.synthesis.grammar import Language


def codes() -> list[str]:
    """The codes of all languages, in alphabetical order."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")


@lru_cache
def load_language(code: str) -> Language:
    """The grammar and words of a language; no other one is imported. Raises ValueError for a code without a module."""
    if code not in codes():
        raise ValueError(f"data.language={code!r} is not one of {', '.join(codes())}")
    language: Language = import_module(f"{__name__}.{code}").language()
    return language
