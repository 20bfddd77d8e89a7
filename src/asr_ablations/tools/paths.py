"""Where the repository's own folders lie."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SOURCE = PACKAGE.parent
REPOSITORY = SOURCE.parent
CONF = REPOSITORY / "conf"
DEFAULTS = CONF / "config.yaml"
"""The defaults of a training config."""
