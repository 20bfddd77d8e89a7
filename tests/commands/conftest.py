from pathlib import Path

import pytest

from tests.helpers.command import common_folder


@pytest.fixture(scope="session")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shrunken built-in corpus is generated, by the first command of all that want it."""
    return common_folder(tmp_path_factory, "corpora")
