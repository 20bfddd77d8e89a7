"""What the papers printed, as data: tables that stand beside what is measured here."""

from importlib.resources import files
from typing import Any

import yaml


def published(name: str) -> dict[str, Any]:
    """The content of <name>.yaml, decimal numbers where a table holds measurements."""
    content: dict[str, Any] = yaml.safe_load((files(__name__) / f"{name}.yaml").read_text(encoding="utf-8"))
    return content
