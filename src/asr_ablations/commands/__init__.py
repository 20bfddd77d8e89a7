"""The commands that src/*.py run.

Lightning needs torchmetrics, which imports scipy.signal and matplotlib if they are installed, for audio metrics and
plots that nothing here uses. Without them, importing Lightning takes a quarter less time.
"""

from importlib.metadata import PackageNotFoundError

from lightning_utilities.core import imports

UNUSED = ("scipy", "matplotlib")
_find_spec, _version = imports.find_spec, imports._version


def _version_of_others(distribution_name: str) -> str:
    if distribution_name in UNUSED:
        raise PackageNotFoundError(distribution_name)
    return _version(distribution_name)


# before the first import of Lightning, in whichever module
imports.find_spec = lambda name, package=None: None if name in UNUSED else _find_spec(name, package)
imports._version = _version_of_others
