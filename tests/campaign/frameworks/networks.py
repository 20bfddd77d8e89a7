"""benchmark=networks: every framework trains the same networks, and says what it cannot do."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from asr_benchmarks.networks import measure
from asr_benchmarks.worker import Worker
from tests.asr_benchmarks.test_networks import CONF, NAMES, configured, gives_the_same, network, trains_the_network
from tests.helpers.one_by_one import OneByOne

FRAMEWORKS = ["torch", *sorted(path.stem for path in (CONF / "framework").glob("*.yaml") if path.stem != "torch")]


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[str, Worker]]:
    """One process per framework for all tests: importing TensorFlow takes longer than most of them."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                Worker(OneByOne, 1, {"JAX_PLATFORMS": "cpu", **configured("framework", name).environment}, wait=False)
            )
            for name in FRAMEWORKS
        }


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(("name", "shrink"), [("fcn5", 256), ("lstm32", 64)])
def test_all_frameworks_train_the_same_network(
    name: str, shrink: int, framework: str, processes: dict[str, Worker]
) -> None:
    trains_the_network(processes[framework], framework, network(name, shrink))


@pytest.mark.parametrize("name", NAMES)
def test_all_frameworks_give_the_same_outputs_and_losses(name: str, processes: dict[str, Worker]) -> None:
    reference = measure.Reference(tf32=False)
    for framework, worker in processes.items():
        gives_the_same(reference, worker, framework, name)
    assert len(reference.first) == 1
