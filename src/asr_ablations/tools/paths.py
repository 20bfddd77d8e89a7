"""Where the repository's own folders lie, how its commands are typed, and where ~ leads."""

import os
from pathlib import Path

from asr_ablations.tools.errors import UsageError

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


def typed(command: str) -> str:
    """How a command is typed here: as a script of the checkout, or as one word of an installed package's command."""
    return f"asr-ablations {command}" if REPOSITORY == CARRIED else f"python src/{command}.py"


def expanded(path: str | Path, key: str = "") -> Path:
    """The path with the home folder in place of its ~. Raises UsageError where there is none: no such user, or HOME is
    not set and the machine knows no home of this one. key: what it is the value of, for the message.
    """
    typed = f"{key}={path}" if key else str(path)
    if not isinstance(path, (str, Path)):
        raise UsageError(f"{typed}: expected the path of a file or folder; a number is quoted twice: '\"{path}\"'")
    if key and not str(path):
        raise UsageError(f"{typed}: expected the path of a file or folder")
    absolute = os.path.expanduser(path)
    if absolute.startswith("~"):
        raise UsageError(f"{typed}: there is no such home folder: set HOME, or name another folder")
    return Path(absolute)
