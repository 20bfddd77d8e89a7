"""Keys of what is kept and used again: hashes over the content of everything that decides it.

Sizes, inodes and times of files are no part of a key but hints: while they are equal, a file is not hashed again.
"""

import ast
import functools
import hashlib
import io
import json
import os
import pickle
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from asr_ablations.tools.files import sha256
from asr_verdicts.errors import UsageError

VERSIONED = ("torch", "torchaudio", "soundfile", "numpy")
"""Libraries whose code decides samples, features and outputs of models; a key has their versions."""
COUNTED = {*VERSIONED, *sys.stdlib_module_names}
"""Packages whose source is not hashed: a key has the versions of those that matter."""


def content_key(digits: int = 16, **parts: object) -> str:
    """Return the first hexadecimal digits of a SHA-256 over named parts, which JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:digits]


@functools.cache
def library_versions() -> dict[str, str]:
    """Return the versions of the libraries in VERSIONED that are installed."""
    versions = {}
    for name in VERSIONED:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


class FileState(NamedTuple):
    """Size in bytes, inode, and time of the last change of the inode in ns.

    Every write moves that time, and no program can set it back. A new state means: hash the file again.
    """

    size: int
    inode: int
    changed: int

    @staticmethod
    def of(path: Path | str) -> "FileState | None":
        """Return the present state of a file, or None if there is no such file."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return None
        return FileState(status.st_size, status.st_ino & (2**63 - 1), status.st_ctime_ns)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, which this process reads once for each of its states. Raises OSError."""
    return _hash_in_state(path, FileState.of(path))


@functools.lru_cache(maxsize=4096)
def _hash_in_state(path: Path, state: FileState | None) -> str:
    return sha256(path)


def visible_files(folder: Path) -> list[Path]:
    """Return the files in a folder at any depth, sorted, without hidden ones, which systems write by themselves."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def hash_files(files: Iterable[Path], root: Path) -> str:
    """Return a SHA-256 over the names of files below `root` and their contents. Raises OSError."""
    lines = [f"{path.relative_to(root).as_posix()}\0{hash_file(path)}\n" for path in files]
    return hashlib.sha256("".join(lines).encode(errors="surrogatepass")).hexdigest()


def dotted_name(cls: type) -> str:
    """Return the name of a class with its module."""
    return f"{cls.__module__}.{cls.__qualname__}"


def hash_classes(classes: Iterable[type]) -> dict[str, str]:
    """Return hashes of the source of classes and of all that they inherit from, by their dotted names."""
    return hash_targets({dotted_name(base) for cls in classes for base in cls.__mro__})


def hash_targets(names: Iterable[str]) -> dict[str, str]:
    """Return hashes of the source behind dotted names, by name. Libraries whose versions count are left out."""
    return {name: hash_source(name) for name in sorted(names) if name.partition(".")[0] not in COUNTED}


def hash_object(value: object) -> str:
    """Return a SHA-256 over the class and state of an object and the source of every class in it.

    The state is whatever pickle would keep of it: attributes of any kind, tensors and arrays by their values. Raises
    UsageError if there is something in it that cannot be pickled.
    """
    buffer = io.BytesIO()
    pickler = _StatePickler(buffer)
    try:
        pickler.dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise UsageError(f"{type(value).__name__}: its state cannot be pickled, so it has no hash: {error}") from error
    state = hashlib.sha256(buffer.getvalue()).hexdigest()
    return content_key(64, state=state, sources=hash_classes(pickler.classes), versions=library_versions())


class _StatePickler(pickle.Pickler):
    """Pickles tensors by their values, and notes the classes that it meets."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=4)
        self.fast = True  # without references between equal strings, which depend on how they came into being
        self.classes: set[type] = set()

    def reducer_override(self, value: Any) -> Any:
        self.classes.add(value if isinstance(value, type) else type(value))
        if hasattr(value, "detach") and hasattr(value, "numpy"):
            value = value.detach().cpu().numpy()
        if hasattr(value, "tobytes") and hasattr(value, "dtype") and not value.dtype.hasobject:  # an array of NumPy
            return tuple, ((str(value.dtype), value.shape, value.tobytes()),)
        return NotImplemented


INSTALLED = ("site-packages", "dist-packages")
VERDICTS = "asr_verdicts"
"""The package that this one is made with: texts pass through it on their way to every number."""


def hash_source(target: str, within: str = "") -> str:
    """Return a SHA-256 of the source behind the dotted name of a module, class or function.

    That is its module and all modules that this imports and that lie in the same folder or, for an installed package,
    in the package or in asr_verdicts. Imports are read, not followed by Python: nothing is executed, and computed
    imports are not seen.

    within: a dotted prefix; modules outside it are left out. Raises ModuleNotFoundError for a target without a module
    in Python, and UsageError for a module that is not Python.
    """
    top = target.partition(".")[0]
    spec = None if top in sys.stdlib_module_names else find_spec(top)
    where = [spec.origin] if spec and spec.origin and spec.has_location else []
    where = where or list((spec and spec.submodule_search_locations) or [])
    if not where:
        raise ModuleNotFoundError(f"there is no module {top} of yours on Python's path")
    first = Path(where[0])
    place = first.parent.parent if first.name == "__init__.py" else first.parent
    installed = (top, VERDICTS) if place.name in INSTALLED else ()
    files = _read_modules(place, target, (within,) if within else installed)
    if not files:
        raise ModuleNotFoundError(f"there is no such module in {place}")
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0".encode() + hashlib.sha256(files[name]).digest())
    return digest.hexdigest()


def _read_modules(place: Path, target: str, within: tuple[str, ...]) -> dict[str, bytes]:
    """Return the contents of the modules that a target needs, by path. within: prefixes of names; empty for any."""
    waiting, contents = [target], dict[str, bytes]()
    while waiting:
        parts = waiting.pop().split(".")
        if within and not any(parts[: prefix.count(".") + 1] == prefix.split(".") for prefix in within):
            continue
        for length in range(1, len(parts) + 1):  # a module is imported after the packages around it
            path = place.joinpath(*parts[:length])
            for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
                name = file.relative_to(place).as_posix()
                if name not in contents and file.is_file():
                    contents[name] = file.read_bytes()
                    package = parts[:length] if file.name == "__init__.py" else parts[: length - 1]
                    waiting += _imports(file, contents[name], package)
    return contents


def _imports(file: Path, content: bytes, package: list[str]) -> Iterator[str]:
    """Yield the dotted names that a module imports, and of a `from … import` all that may be modules."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*around, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" if module else alias.name for alias in node.names)
