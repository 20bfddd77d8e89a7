"""The commands that src/*.py run.

This file makes the import of Lightning twice as fast, so it must be imported before Lightning.

- Lightning imports torchmetrics, which imports scipy.signal and matplotlib if they are installed. No command uses
  torchmetrics for audio or plots, so this file hides both packages.
- Lightning imports torch._dynamo, the compiler behind torch.compile, to recognise compiled modules, and optimizers
  import it to keep themselves from being compiled. Commands compile nothing, so it is imported only if more is used.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from lightning_utilities.core import imports

UNUSED = ("scipy", "matplotlib")
DYNAMO = "torch._dynamo"
_find_spec, _version = imports.find_spec, imports._version


def _version_of_others(distribution_name: str) -> str:
    if distribution_name in UNUSED:
        raise PackageNotFoundError(distribution_name)
    return _version(distribution_name)


imports.find_spec = lambda name, package=None: None if name in UNUSED else _find_spec(name, package)
imports._version = _version_of_others


class DeferredDynamo(ModuleType):
    """Stands in for torch._dynamo, and imports it if an attribute is used that is missing here."""

    __path__: list[str] = []  # noqa: RUF012 (replaced, not changed)

    class OptimizedModule:
        """Stands in for torch's class of compiled modules, of which there are none before the import."""

    @staticmethod
    def disable(function: Callable[..., Any], recursive: bool = True, **options: Any) -> Callable[..., Any]:
        return function

    @staticmethod
    def graph_break(message: str = "") -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_import_dynamo(), name)


class DynamoFinder(MetaPathFinder, Loader):
    """Finds DeferredDynamo in place of torch._dynamo, and imports torch._dynamo before any of its submodules."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name == DYNAMO:
            return ModuleSpec(name, self)
        if not name.startswith(f"{DYNAMO}."):
            return None
        _import_dynamo()
        return ModuleSpec(name, self) if name in sys.modules else find_spec(name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules.get(spec.name) or DeferredDynamo(spec.name)  # submodules are imported with torch._dynamo

    def exec_module(self, module: ModuleType) -> None:
        pass


_finder = DynamoFinder()


def _import_dynamo() -> ModuleType:
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    if isinstance(sys.modules.get(DYNAMO), DeferredDynamo):
        del sys.modules[DYNAMO]
    return import_module(DYNAMO)


sys.meta_path.insert(0, _finder)
