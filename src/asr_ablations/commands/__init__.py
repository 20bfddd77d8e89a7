"""The commands that src/*.py run.

Lightning needs torchmetrics, which imports scipy.signal and matplotlib wherever it finds them, for audio metrics and
plots that nothing here uses: a quarter of the time that Lightning takes to import. It works without them.
"""

from importlib.metadata import PackageNotFoundError

from lightning_utilities.core import imports

UNUSED = ("scipy", "matplotlib")
_find_spec, _version = imports.find_spec, imports._version


def _version_of_others(distribution_name: str) -> str:
    if distribution_name in UNUSED:
        raise PackageNotFoundError(distribution_name)
    return _version(distribution_name)


# before the first import of Lightning, whichever module that stands in
imports.find_spec = lambda name, package=None: None if name in UNUSED else _find_spec(name, package)
imports._version = _version_of_others
