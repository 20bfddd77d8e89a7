"""A hash of source code: of a class's module and of every module that it imports from the same place."""

import ast
import hashlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from asr_verdicts.errors import UsageError

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
    """Return the contents of the modules below a folder that a target needs, by their path in it. within: what their
    names must begin with; empty for anything.
    """
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
