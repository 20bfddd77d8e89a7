"""benchmark=lstm: JAX and Keras compute what the reference does, and the command measures them."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from asr_benchmarks.frameworks.network import Network
from asr_benchmarks.lstm.agreement import Agreement, Expected
from asr_benchmarks.worker import Worker, make_trainer
from tests.asr_benchmarks.test_lstm import CE, CTC, KEYS, NAMES, ONE, decrease, implementation
from tests.helpers.one_by_one import OneByOne
from tests.helpers.support import group_options

OTHERS = [name for name in group_options("benchmark/lstm") if name not in NAMES]


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[str, Worker]]:
    """One for each implementation in another framework."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                Worker(OneByOne, 1, {"JAX_PLATFORMS": "cpu", **implementation(name).environment}, wait=False)
            )
            for name in OTHERS
        }


def agreement(name: str, network: Network, processes: dict[str, Worker]) -> Agreement:
    chosen = implementation(name)
    processes[name].call(
        "begin", partial(make_trainer, chosen.trainer, network, batch=network.batch, **KEYS, **chosen.model)
    )
    return Expected(network, 0).compare(processes[name])


@pytest.mark.parametrize("name", OTHERS)
def test_every_implementation_computes_the_reference_of_utterances_that_differ_in_length(
    name: str, processes: dict[str, Worker]
) -> None:
    measured = agreement(name, CTC, processes)
    assert measured.logits < 1e-6
    assert measured.loss < 1e-5
    assert measured.decrease == pytest.approx(decrease(CTC), rel=0.01)


@pytest.mark.parametrize("name", OTHERS)
def test_cross_entropy_is_of_the_last_frame(name: str, processes: dict[str, Worker]) -> None:
    for network in (CE, ONE):
        measured = agreement(name, network, processes)
        assert max(measured.logits, measured.loss) < 1e-6
        assert measured.decrease == pytest.approx(decrease(network), rel=0.01)
