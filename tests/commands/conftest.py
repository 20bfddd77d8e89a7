import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers.command import common_folder
from tests.helpers.support import REPOSITORY

BUILD = "import sys; del sys.path[0]; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
"""Without the current folder on the path: asr_verdicts has a folder statistics, as Python has a module."""


@pytest.fixture(scope="session")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shrunken built-in corpus is generated, by the first command of all that want it."""
    return common_folder(tmp_path_factory, "corpora")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheels of this checkout are unpacked in, built by the backend that is installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    tree, ignored = folder / "tree", shutil.ignore_patterns("__pycache__", "*.egg-info")
    tree.mkdir()
    for name in ("src", "conf", "sweeps"):
        shutil.copytree(REPOSITORY / name, tree / name, ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md"):
        shutil.copy(REPOSITORY / name, tree)
    for project in (tree / "src" / "asr_verdicts", tree):
        done = subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=project, capture_output=True, text=True)
        assert not done.returncode, done.stderr
    for file in folder.glob("*.whl"):
        with zipfile.ZipFile(file) as wheel:
            wheel.extractall(folder / "site")
    return folder / "site"
