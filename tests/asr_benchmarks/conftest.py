import sys

import pytest

FRAMEWORKS = {"jax", "keras", "returnn", "tensorflow"}


@pytest.fixture(autouse=True)
def no_framework_but_torch():
    """Their threads and hooks make every later fork of this process a risk: a benchmark has them in a Worker."""
    before = FRAMEWORKS & set(sys.modules)  # TensorBoard imports TensorFlow if it is installed
    yield
    assert before == FRAMEWORKS & set(sys.modules)
