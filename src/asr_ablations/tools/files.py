"""Files that are written whole or not at all, safe file names, and the paths of the repository."""

import errno
import hashlib
import json
import os
import re
import shlex
from pathlib import Path

from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, is_regular


def amount(size: float) -> str:
    """A number of bytes for people: 17.5 kB."""
    unit, letters = next(((10**n, u) for n, u in ((9, "GB"), (6, "MB"), (3, "kB")) if size >= 10**n), (1, "bytes"))
    return f"{size / unit:,.1f} {letters}" if unit > 1 else f"{size:.0f} bytes"


def remove_temporary(folder: Path) -> None:
    """Remove what `whole_file` has left in a folder where it was killed. Only for who alone writes there."""
    for path in folder.glob(".*"):
        if re.fullmatch(r"\..+\.\d+(\.\w+)?", path.name) and path.is_file():
            path.unlink(missing_ok=True)


def free_name(path: Path) -> Path:
    """<path>.1, .2, …: the first name that nothing has, for what is put aside."""
    number = 1
    while os.path.lexists(free := path.with_name(f"{path.name}.{number}")):
        number += 1
    return free


def read_json(path: Path) -> Json:
    """The object that a JSON file holds. Raises OSError and ValueError as they come."""
    if not is_regular(path):
        raise OSError(errno.EINVAL, "no regular file", str(path))
    content: Json = json.loads(path.read_text(encoding="utf-8"))
    return content


def sha256(path: Path) -> str:
    """SHA-256 of a file in hexadecimal digits, read a piece at a time."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


PACKAGE = Path(__file__).resolve().parents[1]
SOURCE = PACKAGE.parent
CARRIED = PACKAGE / "repository"  # folder of an installed package in place of a checkout (setup.py)
REPOSITORY = CARRIED if CARRIED.is_dir() else SOURCE.parent
CONF = REPOSITORY / "conf"
SCRIPTS = REPOSITORY / "src"  # the entry scripts
DEFAULTS = CONF / "config.yaml"  # the defaults of a training config


def version() -> str:
    """The version of this package: as it is installed, or as the checkout's pyproject.toml says."""
    project = REPOSITORY / "pyproject.toml"
    if REPOSITORY != CARRIED and project.is_file():
        match = re.search(r'^version = "(.*)"$', project.read_text(encoding="utf-8"), re.MULTILINE)
        return match[1] if match else "unknown"
    from importlib.metadata import version as installed

    return installed("asr-ablations")


def typed(command: str, *words: object) -> str:
    """Spell a command to be pasted: a script of the checkout, or a word of the installed package's command."""
    begin = f"asr-ablations {command}" if REPOSITORY == CARRIED else f"python src/{command}.py"
    return " ".join([begin, *(quote_word(str(word)) for word in words)])


def quote_word(word: str) -> str:
    """Quote a word for the shell if it needs that; a <placeholder> stays as it is."""
    if re.fullmatch(r"[\w.]+=<\w+>", word):
        return word
    # easier to read if there are quotes of Hydra's in it
    return f'"{word}"' if "'" in word and not re.search(r'[\\"$`!]', word) else shlex.quote(word)


def format_override(key: str, value: object) -> str:
    """Return key=value as Hydra takes it for this text, or these texts, with quotes if they need them."""
    if isinstance(value, (list, tuple)):
        return f"{key}=[{','.join(format_override('', part)[1:] for part in value)}]"
    text = str(value)
    plain = re.fullmatch(r"(\.{0,2}/)?[A-Za-z_][\w/.+-]*", text, re.ASCII)
    if plain and text.lower() not in ("true", "false", "null", "nan", "inf"):
        return f"{key}={text}"
    special = re.compile(r"(\\*)('|\$\{|$)")
    return f"{key}='{special.sub(lambda match: match[1] * 2 + (match[2] and chr(92) + match[2]), text)}'"


def expanded(path: str | Path, key: str = "") -> Path:
    """Return the path with the home folder for its ~. Raises UsageError if there is none. key: whose value it is."""
    typed = f"{key}={path}" if key else str(path)
    if not isinstance(path, (str, Path)):
        raise UsageError(f"{typed}: expected the path of a file or folder; a number is quoted twice: '\"{path}\"'")
    if key and not str(path):
        raise UsageError(f"{typed}: expected the path of a file or folder")
    absolute = os.path.expanduser(path)
    if absolute.startswith("~"):
        raise UsageError(f"{typed}: there is no such home folder: set HOME, or name another folder")
    return Path(absolute)
