"""File sizes, hashes, unused names, paths of the repository, and commands to paste into a shell."""

import errno
import hashlib
import itertools
import json
import os
import re
import shlex
from importlib import metadata
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, is_regular


def amount(size: float) -> str:
    """Format a number of bytes with a unit, such as 17.5 kB."""
    unit, letters = next(((10**n, u) for n, u in ((9, "GB"), (6, "MB"), (3, "kB")) if size >= 10**n), (1, "bytes"))
    return f"{size / unit:,.1f} {letters}" if unit > 1 else f"{size:.0f} bytes"


def remove_temporary(folder: Path) -> None:
    """Remove temporary files that killed processes left in a folder. No other process may be writing to the folder."""
    for path in folder.glob(".*"):
        if re.fullmatch(r"\..+\.\d+(\.\w+)?", path.name) and path.is_file():
            path.unlink(missing_ok=True)


def free_name(path: Path) -> Path:
    """Return the first unused path among <path>.1, <path>.2 and so on."""
    names = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
    return next(name for name in names if not os.path.lexists(name))


def read_json(path: Path) -> Json:
    """Return the contents of a JSON file. Raises OSError or ValueError."""
    if not is_regular(path):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    content: Json = json.loads(path.read_text(encoding="utf-8"))
    return content


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits. The file is read in pieces to save memory."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


PACKAGE = Path(__file__).resolve().parents[1]
SOURCE = PACKAGE.parent
CARRIED = PACKAGE / "repository"  # in an installed package: copies of conf/, sweeps/ and scripts (made by setup.py)
REPOSITORY = CARRIED if CARRIED.is_dir() else SOURCE.parent
CONF = REPOSITORY / "conf"
SCRIPTS = REPOSITORY / "src"  # the entry scripts
DEFAULTS = CONF / "config.yaml"  # the defaults of a training config
AS_COMMAND = "ASR_ABLATIONS_COMMAND"  # set in the environment of asr-ablations and of the processes that it starts


def version() -> str:
    """Return the version of the installed package, or in a checkout the version in pyproject.toml."""
    if REPOSITORY == CARRIED:
        return metadata.version("asr-ablations")
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    return str(re.findall(r'^version = "(.*)"$', project, re.MULTILINE)[0])


def is_command() -> bool:
    """Return whether the user has typed asr-ablations, which also works outside a checkout, and not python src/…"""
    return REPOSITORY == CARRIED or AS_COMMAND in os.environ


def typed(command: str, *words: object) -> str:
    """Return a command line that the user can paste, in the form in which the user has typed this one."""
    begin = f"asr-ablations {command}" if is_command() else f"python src/{command}.py"
    return " ".join([begin, *(quote_word(str(word)) for word in words)])


def quote_word(word: str) -> str:
    """Quote an argument for the shell if necessary. Arguments such as key=<placeholder> are never quoted."""
    if re.fullmatch(r"[\w.]+=<\w+>", word):
        return word
    # double quotes are easier to read around the single quotes of Hydra's syntax
    return f'"{word}"' if "'" in word and not re.search(r'[\\"$`!]', word) else shlex.quote(word)


def format_override(key: str, value: object) -> str:
    """Format key=value in Hydra's syntax for a string or a list of strings, quoted if necessary."""
    if isinstance(value, (list, tuple)):
        return f"{key}=[{','.join(format_override('', part)[1:] for part in value)}]"
    text = str(value)
    plain = re.fullmatch(r"(\.{0,2}/)?[A-Za-z_][\w/.+-]*", text, re.ASCII)
    if plain and text.lower() not in ("true", "false", "null", "nan", "inf"):
        return f"{key}={text}"
    special = re.compile(r"(\\*)('|\$\{|$)")
    return f"{key}='{special.sub(lambda match: match[1] * 2 + (match[2] and chr(92) + match[2]), text)}'"


def expanded(path: str | Path, key: str = "") -> Path:
    """Replace ~ in a path with the home folder. key: config key for error messages."""
    typed = f"{key}={path}" if key else str(path)
    if not isinstance(path, (str, Path)) or (key and not str(path)):
        raise UsageError(f"{typed}: expected the path of a file or folder; quote a number twice: '\"{path}\"'")
    absolute = os.path.expanduser(path)
    if absolute.startswith("~"):
        raise UsageError(f"{typed}: there is no such home folder: set HOME, or name another folder")
    return Path(absolute)
