"""What the papers printed, as data: tables that stand beside what is measured here."""

from importlib.resources import files
from typing import Any

import yaml


def published(name: str) -> Any:
    """The content of <name>.yaml, decimal numbers where a table holds measurements."""
    return yaml.safe_load((files(__name__) / f"{name}.yaml").read_text(encoding="utf-8"))
