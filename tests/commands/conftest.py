from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shrunken built-in corpus is generated, once for all tests."""
    return tmp_path_factory.mktemp("corpora")
