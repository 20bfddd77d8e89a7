"""The commands that src/*.py run.

This file makes the import of Lightning a quarter faster. Lightning imports torchmetrics, which imports scipy.signal and
matplotlib if they are installed. No command uses torchmetrics for audio or plots, so this file hides both packages.
"""

from importlib.metadata import PackageNotFoundError

from lightning_utilities.core import imports

UNUSED = ("scipy", "matplotlib")
_find_spec, _version = imports.find_spec, imports._version


def _version_of_others(distribution_name: str) -> str:
    if distribution_name in UNUSED:
        raise PackageNotFoundError(distribution_name)
    return _version(distribution_name)


# this must happen before any module imports Lightning
imports.find_spec = lambda name, package=None: None if name in UNUSED else _find_spec(name, package)
imports._version = _version_of_others
