"""No pruning: every run is trained to its end."""

from pathlib import Path


def none(folder: Path, key: str) -> None:
    """None, for no callback."""
