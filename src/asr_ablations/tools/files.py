"""Files that are written whole or not at all, safe file names, and the paths of the repository."""

import csv
import errno
import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from asr_ablations.tools.errors import UsageError

Json: TypeAlias = dict[str, Any]
"""An object of JSON or YAML: names and values of any kind."""


def slug(text: str) -> str:
    """Letters that are safe in a folder name and need no quotes in a Hydra override: no '=', no ','."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-.") or "run"


LONGEST_NAME = 100
"""Letters of a folder's name: file systems end at 255 bytes."""


def folder_name(text: str) -> str:
    """The text as the name of a folder. One with other letters, or a long one, gets a hash: no two texts share one."""
    name = slug(text)
    if name == text and len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


@contextmanager
def whole_file(path: Path, ending: str = "") -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it when the block is done: a file that is there is whole. Nothing is
    left of a block that raises. ending: of the temporary name, where a library goes by it (NumPy adds .npy).
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{ending}")
    try:
        yield temporary
        with suppress(FileNotFoundError), temporary.open("rb") as file:
            os.fsync(file.fileno())  # else a power cut after the rename can leave it empty or cut
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):  # where `path` lies in no folder
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is None and re.search(r"requested and \d+ written", str(error)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error  # NumPy's words for it
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(temporary), temporary):
            error.filename = str(path)  # nobody knows the temporary name; a full disk comes without any
        raise


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Gives an error of the system that names no file, as a full disk, the name of this one."""
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = str(path)
        raise


def amount(size: float) -> str:
    """A number of bytes for people: 17.5 kB."""
    unit, letters = next(((10**n, u) for n, u in ((9, "GB"), (6, "MB"), (3, "kB")) if size >= 10**n), (1, "bytes"))
    return f"{size / unit:,.1f} {letters}" if unit > 1 else f"{size:.0f} bytes"


def write(path: Path, text: str) -> None:
    """Write a whole file of text, UTF-8."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")  # halves of characters from names


def write_json(path: Path, content: object) -> None:
    """Write a whole file of indented JSON."""
    write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _spelled_out(path: Path) -> IO[str]:
    """A table opened for writing: halves of characters, as names of files can hold, are spelled out."""
    return path.open("w", newline="", encoding="utf-8", errors="backslashreplace")


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write a whole table with the keys of the first row as its head."""
    with whole_file(path) as temporary, _spelled_out(temporary) as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(rows)


def is_regular(path: Path) -> bool:
    """Return whether this is a plain file, of which reading ends: of a pipe or a device it need not. Raises OSError."""
    return stat.S_ISREG(path.stat().st_mode)


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
CARRIED = PACKAGE / "repository"
"""Folder of an installed package in place of a checkout (setup.py)."""
REPOSITORY = CARRIED if CARRIED.is_dir() else SOURCE.parent
CONF = REPOSITORY / "conf"
SCRIPTS = REPOSITORY / "src"
"""The entry scripts."""
DEFAULTS = CONF / "config.yaml"
"""The defaults of a training config."""


def version() -> str:
    """The version of this package: as it is installed, or as the checkout's pyproject.toml says."""
    project = REPOSITORY / "pyproject.toml"
    if REPOSITORY != CARRIED and project.is_file():
        match = re.search(r'^version = "(.*)"$', project.read_text(encoding="utf-8"), re.MULTILINE)
        return match[1] if match else "unknown"
    from importlib.metadata import version as installed

    return installed("asr-ablations")


def typed(command: str, *words: object) -> str:
    """The spelling of a command here, to be pasted: a script of the checkout, or a word of the installed package's
    command. words: its arguments.
    """
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
