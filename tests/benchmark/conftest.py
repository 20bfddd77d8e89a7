import sys

import pytest


@pytest.fixture(autouse=True)
def no_framework_but_torch():
    """Their threads and hooks make every later fork of this process a risk: they are imported in a Worker."""
    yield
    assert not {"jax", "keras", "returnn", "tensorflow"} & set(sys.modules)
