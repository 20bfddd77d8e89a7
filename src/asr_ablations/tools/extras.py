"""Packages that only some commands need. Each extra of pyproject.toml is required by name where it is needed."""

from importlib.util import find_spec

from asr_ablations.tools.errors import UsageError

BROUGHT_BY = {"pyctcdecode": "decode"}
"""Packages that a module imports at its top, by the extra that brings each."""


def require(extra: str, purpose: str, *packages: str) -> None:
    """Raises UsageError with the line that installs the extra, where one of its packages is missing.

    purpose: what needs it, as the user typed it; packages: names to import.
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UsageError(f"{purpose}: needs {', '.join(missing)}; {installs(extra)}")


def missing(purpose: str, error: BaseException | None) -> UsageError | None:
    """What to say of an import that failed for want of one of BROUGHT_BY; None for any other error."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = BROUGHT_BY.get(package)
    return None if extra is None else UsageError(f"{purpose}: needs {package}; {installs(extra)}")


def installs(extra: str) -> str:
    """The line that installs an extra, in a sentence."""
    return f"make install EXTRAS={extra} (or pip install '.[{extra}]') installs it"
