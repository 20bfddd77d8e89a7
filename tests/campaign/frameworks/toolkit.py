"""benchmark=toolkit: RETURNN's engines really train, on the same frames, to the same losses."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from asr_benchmarks.toolkit.loops import PlainLoop
from asr_benchmarks.toolkit.network import Engine, generate
from asr_benchmarks.toolkit.returnn import Returnn, ReturnnTensorflow
from tests.asr_benchmarks.test_toolkit import DATA, EPOCHS, SETTINGS, folder, running

__all__ = ["folder"]


def test_returnn_trains_on_the_same_frames_to_the_same_losses(folder: str, tmp_path: Path) -> None:
    """With all chunks in one batch their order does not matter, and every engine takes the same steps."""
    whole = replace(SETTINGS, batch=28)
    generate(tmp_path, whole, **DATA)
    plain = PlainLoop(str(tmp_path), whole, "")
    with running(partial(Returnn, loader_processes=0), str(tmp_path), whole, "") as worker:
        for _ in range(EPOCHS):
            expected, trained = plain.step(), worker.call("step")
            assert trained.frames == expected.frames == 280
            assert trained.updates == 1
            assert trained.loss == pytest.approx(expected.loss, abs=1e-4)
        assert worker.call("error_rate") == pytest.approx(plain.error_rate(), abs=1.3)  # one of 80 frames
        log = (tmp_path / "returnn.log").read_text()
    assert re.findall(r"Epoch (\d): Trained (\d) steps", log) == [("1", "1"), ("2", "1"), ("3", "1")]


def test_returnns_tensorflow_engine_has_the_losses_of_a_network_with_one_bias(tmp_path: Path) -> None:
    """Its cells have one bias where PyTorch's have two: with the second held still both take the same steps."""
    whole = replace(SETTINGS, batch=28)
    generate(tmp_path, whole, **DATA)
    plain = PlainLoop(str(tmp_path), whole, "")
    for name, parameter in plain.network.named_parameters():
        parameter.requires_grad = "bias_hh" not in name
    with running(ReturnnTensorflow, str(tmp_path), whole, "") as worker:
        assert worker.call("error_rate") == pytest.approx(plain.error_rate(), abs=1.3)  # one of 80 frames
        for _ in range(EPOCHS):
            expected, trained = plain.step(), worker.call("step")
            assert (trained.frames, trained.updates) == (expected.frames, 1) == (280, 1)
            assert trained.loss == pytest.approx(expected.loss, abs=1e-4)
        assert worker.call("error_rate") == pytest.approx(plain.error_rate(), abs=1.3)
        assert worker.call("versions")["tensorflow"].startswith("2")


@pytest.mark.parametrize("engine", [partial(Returnn, loader_processes=0), ReturnnTensorflow])
def test_returnn_learns_in_batches(engine: Callable[..., Engine], folder: str) -> None:
    with running(engine, folder, SETTINGS, "") as worker:
        epochs = [worker.call("step") for _ in range(30)]
        assert {epoch.frames for epoch in epochs} == {280}
        assert {epoch.updates for epoch in epochs} == {7}
        assert epochs[-1].loss < 0.8 * epochs[0].loss
        assert worker.call("error_rate") < 60
        assert "returnn" in worker.call("versions")
