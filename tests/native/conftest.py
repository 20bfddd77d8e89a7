"""The native library, on a machine that can have it."""

from collections.abc import Iterator

import pytest
import torch

from asr_ablations.native import extension


def targets() -> list[str]:
    """The targets of this processor. A machine without a compiler or a target skips what needs them."""
    words = extension.processor_words()
    return [name for name, needed in extension.TARGETS.items() if words.issuperset(needed)]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(params=targets() or ["none"])
def target(request: pytest.FixtureRequest) -> str:
    """Each target of this processor, in use."""
    try:
        extension.load(request.param)
    except (KeyError, extension.NativeError) as reason:
        pytest.skip(f"no native library here: {reason}")
    return extension.use(request.param)


@pytest.fixture
def native() -> str:
    """The best target of this processor, in use."""
    try:
        extension.load_best()
    except extension.NativeError as reason:
        pytest.skip(f"no native library here: {reason}")
    return extension.use(extension.AUTO)
