"""Numbers that the papers printed, as data: tables that stand beside the numbers measured on this machine."""

from importlib.resources import files
from typing import Any

import yaml


def published(name: str) -> Any:
    """The content of <name>.yaml. Measurements in it are decimal numbers, since tables match rows by the others."""
    return yaml.safe_load((files(__name__) / f"{name}.yaml").read_text(encoding="utf-8"))
