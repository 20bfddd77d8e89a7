"""benchmark=lstm: JAX and Keras compute what the reference does, and the command measures them."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

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


class JaxCTC:
    """For a Worker: a process that has imported JAX must not be forked, as this one is by other tests."""

    def each_and_gradient(self, logits: np.ndarray, lengths: np.ndarray, labels: np.ndarray) -> Any:
        import jax

        from asr_benchmarks.frameworks.jax_lax import ctc

        whole: Any = (lengths.astype(np.int32), labels.astype(np.int32))

        def total(x: Any) -> Any:
            each = ctc(jax.nn.log_softmax(x), *whole)
            return each.sum(), each

        gradient, each = jax.grad(total, has_aux=True)(logits)
        return np.asarray(each), np.asarray(gradient)


def test_jaxs_ctc_is_torchs_with_gradients(processes: dict[str, Worker]) -> None:
    generator = np.random.default_rng(0)
    logits = generator.standard_normal((3, 11, 5)).astype(np.float32)
    lengths, labels = np.array([11, 8, 6]), np.array([[1, 1, 2], [3, 4, 3], [2, 2, 2]])
    theirs = torch.from_numpy(logits).requires_grad_()
    counts = torch.full((3,), 3)
    log_probs = theirs.log_softmax(dim=-1).transpose(0, 1)
    nats = torch.nn.functional.ctc_loss(
        log_probs, torch.from_numpy(labels), torch.from_numpy(lengths), counts, reduction="none"
    )
    nats.sum().backward()
    processes["jax_scan"].call("begin", JaxCTC)
    each, gradient = processes["jax_scan"].call("each_and_gradient", logits, lengths, labels)
    np.testing.assert_allclose(each, nats.detach().numpy(), rtol=1e-5)
    assert theirs.grad is not None
    np.testing.assert_allclose(gradient, theirs.grad.numpy(), atol=1e-5)
