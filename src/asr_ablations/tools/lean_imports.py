"""Lightning without scipy.signal and matplotlib, which take longer to import than Lightning itself.

torchmetrics, which Lightning needs, imports them wherever they are installed, for its audio metrics and its plots.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import PackageNotFoundError
from types import ModuleType

UNUSED = ("scipy", "matplotlib")
"""Packages that torchmetrics shall not find: it works without them, as if they were not installed."""


def lean_imports() -> None:
    """Import torchmetrics without its unused parts from now on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == "torchmetrics" else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        with _without_unused():
            super().exec_module(module)


@contextmanager
def _without_unused() -> Iterator[None]:
    """Within, the functions by which torchmetrics looks for packages find none of UNUSED."""
    from lightning_utilities.core import imports

    if not hasattr(imports, "_version"):  # another release, which looks elsewhere: slower, and as good
        yield
        return
    find_spec, version = imports.find_spec, imports._version

    def find_others(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in UNUSED else find_spec(name, package)

    def version_of_others(distribution_name: str) -> str:
        if distribution_name in UNUSED:
            raise PackageNotFoundError(distribution_name)
        return version(distribution_name)

    imports.find_spec, imports._version = find_others, version_of_others
    try:
        yield
    finally:
        imports.find_spec, imports._version = find_spec, version
