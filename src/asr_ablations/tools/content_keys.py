"""Keys of cached results: hashes of all code and data that a result depends on.

The size, inode and change time of a file are not part of a key. They only show whether the file must be hashed again.
"""

import ast
import functools
import hashlib
import io
import json
import os
import pickle
import sys
from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from asr_ablations.tools.files import sha256
from asr_verdicts.errors import UsageError

VERSIONED = ("torch", "torchaudio", "soundfile", "numpy")
"""Libraries whose code affects samples, features or model outputs. Their versions are part of a key."""
COUNTED = {*VERSIONED, *sys.stdlib_module_names}
"""Packages whose source is not hashed, because a version identifies it or because it does not affect results."""


def content_key(digits: int = 16, **parts: object) -> str:
    """Return the first `digits` hexadecimal digits of a SHA-256 of named values, which must be valid JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:digits]


@functools.cache
def library_versions() -> dict[str, str]:
    """Return the versions of the libraries in VERSIONED that are installed."""
    return {name: version(name) for name in VERSIONED if find_spec(name)}


class FileState(NamedTuple):
    """A file's size in bytes, its inode, and its change time in ns since the epoch, which programs cannot set back."""

    size: int
    inode: int
    changed: int

    @staticmethod
    def read(path: Path | str) -> "FileState | None":
        """Return the current state of a file, or None if the file does not exist."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return None
        return FileState(status.st_size, status.st_ino & (2**63 - 1), status.st_ctime_ns)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file. The file is read again only if its FileState has changed. Raises OSError."""
    return _hash_in_state(path, FileState.read(path))


@functools.lru_cache(maxsize=4096)
def _hash_in_state(path: Path, state: FileState | None) -> str:
    return sha256(path)


def visible_files(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted, except hidden files, which operating systems create automatically."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def hash_files(files: Iterable[Path], root: Path) -> str:
    """Return a SHA-256 of the contents of files and of their paths relative to `root`. Raises OSError."""
    lines = [f"{path.relative_to(root).as_posix()}\0{hash_file(path)}\n" for path in files]
    return hashlib.sha256("".join(lines).encode(errors="surrogatepass")).hexdigest()


def dotted_name(cls: type) -> str:
    """Return the full name of a class, including its module."""
    return f"{cls.__module__}.{cls.__qualname__}"


def hash_classes(classes: Iterable[type]) -> dict[str, str]:
    """Return a hash of the source of each class and of each of its base classes, by dotted name."""
    return hash_targets({dotted_name(base) for cls in classes for base in cls.__mro__})


def hash_targets(names: Iterable[str]) -> dict[str, str]:
    """Return a hash of the source behind each dotted name. Names in the packages COUNTED are left out."""
    return {name: hash_source(name) for name in sorted(names) if name.partition(".")[0] not in COUNTED}


def hash_object(value: object) -> str:
    """Return a SHA-256 of an object's pickled state and of the source of every class in the object.

    Equal tensors and arrays have equal hashes. Raises UsageError if part of the object cannot be pickled.
    """
    buffer = io.BytesIO()
    pickler = _StatePickler(buffer)
    try:
        pickler.dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise UsageError(f"{type(value).__name__}: cannot be hashed, because it cannot be pickled: {error}") from error
    state = hashlib.sha256(buffer.getvalue()).hexdigest()
    return content_key(64, state=state, sources=hash_classes(pickler.classes), versions=library_versions())


class _StatePickler(pickle.Pickler):
    """A pickler that saves tensors by value and collects the classes of all objects."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=4)
        self.fast = True  # no references to earlier strings, because equal strings may or may not be the same object
        self.classes: set[type] = set()

    def reducer_override(self, value: Any) -> Any:
        self.classes.add(value if isinstance(value, type) else type(value))
        if hasattr(value, "detach") and hasattr(value, "numpy"):
            value = value.detach().cpu().numpy()
        if hasattr(value, "tobytes") and hasattr(value, "dtype") and not value.dtype.hasobject:  # a NumPy array
            return tuple, ((str(value.dtype), value.shape, value.tobytes()),)
        return NotImplemented


INSTALLED = ("site-packages", "dist-packages")
VERDICTS = "asr_verdicts"
"""The package that prepares the transcripts for every error rate. Keys therefore also cover its source."""


def hash_source(target: str, within: str = "") -> str:
    """Return a SHA-256 of the source behind the dotted name of a module, class or function.

    The hash covers the module and all modules that it imports from the same folder, directly or indirectly; for an
    installed package, only modules in the package and in asr_verdicts. Imports are found without running the source,
    so computed imports are missed. within: dotted prefix of the modules to cover; "" for all. Raises
    ModuleNotFoundError, or UsageError for invalid Python.
    """
    top = target.partition(".")[0]
    spec = None if top in sys.stdlib_module_names else find_spec(top)
    folders = list((spec and spec.submodule_search_locations) or [])  # empty unless `top` is a package
    if spec is None or not (folders or spec.has_location):
        raise ModuleNotFoundError(f"there is no module {top} on Python's path")
    place = Path(folders[0] if folders else str(spec.origin)).parent
    installed = (top, VERDICTS) if place.name in INSTALLED else ()
    files = _read_modules(place, target, (within,) if within else installed)
    if not files:
        raise ModuleNotFoundError(f"there is no module {target} in {place}")
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0".encode() + hashlib.sha256(files[name]).digest())
    return digest.hexdigest()


def _read_modules(place: Path, target: str, within: tuple[str, ...]) -> dict[str, bytes]:
    """Return the source of all modules that a target needs, by path. within: allowed prefixes; () allows all."""
    waiting, seen, contents = [target], set[str](), dict[str, bytes]()
    while waiting:
        parts = waiting.pop().split(".")
        if within and not f"{'.'.join(parts)}.".startswith(tuple(f"{prefix}." for prefix in within)):
            continue
        for length in range(1, len(parts) + 1):  # importing a module also imports the packages that contain it
            if (module := ".".join(parts[:length])) in seen:
                continue
            seen.add(module)
            path = place.joinpath(*parts[:length])
            for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
                name = file.relative_to(place).as_posix()
                if name not in contents and file.is_file():
                    contents[name] = file.read_bytes()
                    package = tuple(parts[:length] if file.name == "__init__.py" else parts[: length - 1])
                    waiting += _list_imports(file, contents[name], package)
    return contents


@functools.cache  # because parsing takes most of the time, and the keys of many sets cover the same modules
def _list_imports(file: Path, content: bytes, package: tuple[str, ...]) -> list[str]:
    """Return the dotted names that a module imports, including all names in `from … import`, which may be modules."""
    try:
        waiting: list[ast.AST] = [ast.parse(content)]
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    names: list[str] = []
    while waiting:
        node = waiting.pop()
        # expressions cannot contain imports, and visiting them would take as long as parsing
        waiting += (
            n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.stmt, ast.excepthandler, ast.match_case))
        )
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*around, *filter(None, [node.module])])
            names += (f"{module}.{alias.name}" if module else alias.name for alias in node.names)
    return names
