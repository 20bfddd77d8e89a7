"""Packages that only some commands need. Each extra of pyproject.toml is required by name where it is needed."""

from importlib.util import find_spec

from asr_ablations.tools.errors import UsageError


def require(extra: str, purpose: str, *packages: str) -> None:
    """Raises UsageError with the line that installs the extra, where one of its packages is missing.

    purpose: what needs it, as the user typed it; packages: names to import.
    """
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UsageError(f"{purpose}: needs {', '.join(missing)}; {installs(extra)}")


def installs(extra: str) -> str:
    """The line that installs an extra, in a sentence."""
    return f"make install EXTRAS={extra} (or pip install '.[{extra}]') installs it"
