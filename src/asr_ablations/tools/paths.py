"""Where the repository's own folders lie."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SOURCE = PACKAGE.parent
CARRIED = PACKAGE / "repository"
"""What an installed package has in place of a checkout (setup.py)."""
REPOSITORY = CARRIED if CARRIED.is_dir() else SOURCE.parent
CONF = REPOSITORY / "conf"
SCRIPTS = REPOSITORY / "src"
"""The entry scripts."""
DEFAULTS = CONF / "config.yaml"
"""The defaults of a training config."""
