"""RETURNN's framewise experiment in miniature: every engine really trains, on the same frames, to the same losses."""

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch.nn.functional import cross_entropy

from asr_benchmarks.toolkit.averaged import Ranks, ways_to_average, with_averaging
from asr_benchmarks.toolkit.loops import Minimal, PlainLoop, ProjectLoop
from asr_benchmarks.toolkit.measure import runnable
from asr_benchmarks.toolkit.network import Engine, Frames, Network, Settings, frame_error_rate, generate
from asr_benchmarks.toolkit.returnn import Returnn
from asr_benchmarks.toolkit.returnn_tensorflow import ReturnnTensorflow
from asr_benchmarks.worker import Worker
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose

SETTINGS = Settings(
    features=5, labels=7, chunk=10, layers=3, width=8, batch=4, lr=0.5, momentum=0.9, seed=3, device="cpu"
)
DATA = {"utterances": 9, "frames": 40, "noise": 0.3, "held_out": 0.2}
EPOCHS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("frames")
    generate(folder, SETTINGS, **DATA)
    return str(folder)


def config(*overrides: str) -> str:
    return OmegaConf.to_yaml(compose("gpus=0", *overrides), resolve=True)


@contextmanager
def running(make: Callable[..., Engine], folder: str, settings: Settings, text: str) -> Iterator[Worker]:
    with Worker(partial(make, folder, settings, text), threads=1, children=True) as worker:
        yield worker


def losses(make: Callable[..., Engine], folder: str, settings: Settings) -> list[float]:
    with running(make, folder, settings, config()) as worker:
        return [worker.call("epoch")["loss"] for _ in range(EPOCHS)]


def test_frames_lie_about_their_labels_points_and_labels_last(folder: str) -> None:
    frames = Frames(Path(folder), SETTINGS)
    assert frames.features.shape == (9, 40, 5)
    assert frames.train_utterances == 7
    assert frames.train_utterances * frames.labels.shape[1] == 280
    assert sum(len(chunks) for chunks in frames.held_out()) == 2 * 4
    for label in range(SETTINGS.labels):
        points = frames.features[frames.labels == label]
        assert points.std(axis=0) == pytest.approx(0.3, abs=0.15)
    stays = (frames.labels[:, 1:] == frames.labels[:, :-1]).mean()
    assert stays == pytest.approx(0.8 + 0.2 / SETTINGS.labels, abs=0.08)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_an_epoch_is_every_training_chunk_once_and_ranks_share_it(ranks: int, folder: str) -> None:
    frames = Frames(Path(folder), SETTINGS)
    parts = [frames.epoch(5, rank, ranks) for rank in range(ranks)]
    assert len({len(part) for part in parts}) == 1
    trained = np.concatenate([chunks for part in parts for chunks in part])
    assert len(set(trained.tolist())) == len(trained)
    assert set(trained.tolist()) <= set(range(7 * 4))
    assert len(trained) == (28 if ranks == 1 else 7 // ranks * ranks * 4)
    assert not np.array_equal(frames.epoch(6)[0], frames.epoch(5)[0])
    x, y = frames.read(np.array([5]))
    assert x.numpy() == pytest.approx(frames.features[1, 10:20][None])
    assert y.tolist() == frames.labels[1, 10:20][None].tolist()


def test_impossible_data_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^benchmark.frames=45: expected a multiple of benchmark.chunk=10$"):
        generate(tmp_path, SETTINGS, **{**DATA, "frames": 45})
    for share in (0, 1, 0.99):
        with pytest.raises(UsageError, match=rf"^benchmark.held_out={share}: expected a share"):
            generate(tmp_path, SETTINGS, **{**DATA, "held_out": share})


def test_the_projects_loops_and_the_plain_one_have_the_same_losses(folder: str) -> None:
    plain = PlainLoop(folder, SETTINGS, "")
    expected = [plain.epoch()["loss"] for _ in range(EPOCHS)]
    assert expected[-1] < expected[0]
    assert losses(ProjectLoop, folder, SETTINGS) == pytest.approx(expected, abs=1e-4)
    assert losses(partial(Minimal, precision=32), folder, SETTINGS) == pytest.approx(expected, abs=1e-4)


def test_returnn_trains_on_the_same_frames_to_the_same_losses(folder: str, tmp_path: Path) -> None:
    """With all chunks in one batch their order does not matter, and every engine takes the same steps."""
    whole = replace(SETTINGS, batch=28)
    generate(tmp_path, whole, **DATA)
    plain = PlainLoop(str(tmp_path), whole, "")
    with running(partial(Returnn, loader_processes=0), str(tmp_path), whole, "") as worker:
        for _ in range(EPOCHS):
            expected, trained = plain.epoch(), worker.call("epoch")
            assert trained["frames"] == expected["frames"] == 280
            assert trained["steps"] == 1
            assert trained["loss"] == pytest.approx(expected["loss"], abs=1e-4)
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
            expected, trained = plain.epoch(), worker.call("epoch")
            assert (trained["frames"], trained["steps"]) == (expected["frames"], 1) == (280, 1)
            assert trained["loss"] == pytest.approx(expected["loss"], abs=1e-4)
        assert worker.call("error_rate") == pytest.approx(plain.error_rate(), abs=1.3)
        assert "over tensorflow 2" in worker.call("about")["version"]


@pytest.mark.parametrize("engine", [partial(Returnn, loader_processes=0), ReturnnTensorflow])
def test_returnn_learns_in_batches(engine: Callable[..., Engine], folder: str) -> None:
    with running(engine, folder, SETTINGS, "") as worker:
        epochs = [worker.call("epoch") for _ in range(30)]
        assert {epoch["frames"] for epoch in epochs} == {280}
        assert {epoch["steps"] for epoch in epochs} == {7}
        assert epochs[-1]["loss"] < 0.8 * epochs[0]["loss"]
        assert worker.call("error_rate") < 60
        assert worker.call("about")["version"].startswith("returnn ")


def test_an_engine_of_another_device_is_left_out_with_a_line() -> None:
    engines = {"tensorflow": partial(ReturnnTensorflow), "plain": partial(PlainLoop)}
    assert runnable(engines, "cpu") == (engines, [])
    left, (line,) = runnable(engines, "cuda")
    assert (list(left), line) == (["plain"], "tensorflow left out: its packages are TensorFlow's for a CPU")


def test_the_error_rate_counts_held_out_frames(folder: str) -> None:
    frames = Frames(Path(folder), SETTINGS)
    always = torch.eye(SETTINGS.labels)[2]
    expected = 100 * (frames.labels[7:] != 2).mean()
    assert frame_error_rate(lambda x: always.expand(*x.shape[:2], -1), frames) == pytest.approx(expected)


def by_hand(folder: str, settings: Settings, every: int | None) -> list[float]:
    """Losses of two workers that are averaged, in one process."""
    frames = Frames(Path(folder), settings)
    networks = [Network(settings), copy.deepcopy(Network(settings))]
    optimizers = [torch.optim.SGD(n.parameters(), lr=settings.lr, momentum=settings.momentum) for n in networks]
    means, step = [], 0
    for epoch in range(EPOCHS):
        taken: list[float] = []
        batches = list(zip(*(frames.batches(epoch, rank, 2) for rank in range(2)), strict=True))
        for number, pair in enumerate(batches, start=1):
            for network, optimizer, (x, y) in zip(networks, optimizers, pair, strict=True):
                loss = cross_entropy(network(x).flatten(0, 1), y.flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                taken.append(float(loss.detach()))
            step += 1
            if number == len(batches) or (every and step % every == 0):
                for a, b in zip(*(network.parameters() for network in networks), strict=True):
                    mean = (a.data + b.data) / 2
                    a.data.copy_(mean)
                    b.data.copy_(mean)
        means.append(sum(taken) / len(taken))
    return means


@pytest.mark.slow
@pytest.mark.parametrize("every", [None, 2])
def test_two_workers_are_averaged_as_by_hand(every: int | None, folder: str) -> None:
    cfg = OmegaConf.to_yaml(with_averaging(compose("gpus=0"), every), resolve=True)
    with Ranks(partial(ProjectLoop, folder, SETTINGS, cfg), 2, threads=1) as group:
        epochs = [group.epoch() for _ in range(EPOCHS)]
        assert 0 <= group.error_rate() <= 100
    assert {epoch["frames"] for epoch in epochs} == {240}
    assert [epoch["loss"] for epoch in epochs] == pytest.approx(by_hand(folder, SETTINGS, every), abs=1e-4)


def test_one_worker_has_nothing_to_average() -> None:
    ways = ways_to_average([1, 2], [None, 10])
    assert ways == {"1 worker": (1, None), "2 workers": (2, None), "2 workers, every 10 steps": (2, 10)}
