"""RETURNN's framewise experiment in miniature: every engine really trains, on the same frames, to the same losses."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from asr_benchmarks.toolkit.loops import Minimal, PlainLoop, ProjectLoop
from asr_benchmarks.toolkit.measure import list_ways
from asr_benchmarks.toolkit.network import Frames, Settings, generate
from asr_benchmarks.worker import Implementation, Worker, choose_runnable
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose

SETTINGS = Settings(
    features=5, labels=7, chunk=10, layers=3, width=8, batch=4, lr=0.5, momentum=0.9, seed=3, device="cpu"
)
DATA: dict[str, Any] = {"utterances": 9, "frames": 40, "noise": 0.3, "held_out": 0.2}
EPOCHS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("frames")
    generate(folder, SETTINGS, **DATA)
    return str(folder)


class BothLoops:
    """The project's loops, each of which trains in a thread of the process."""

    def __init__(self, folder: str, settings: Settings, text: str) -> None:
        self.loops = ProjectLoop(folder, settings, text), Minimal(folder, settings, text, precision=32)

    def losses(self) -> list[list[float]]:
        return [[loop.step().loss for _ in range(EPOCHS)] for loop in self.loops]


@contextmanager
def running(make: Callable[..., Any], folder: str, settings: Settings, text: str) -> Iterator[Worker]:
    with Worker(partial(make, folder, settings, text), threads=1, children=True) as worker:
        yield worker


@pytest.mark.parametrize("ranks", [1, 3])
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
    expected = [plain.step().loss for _ in range(EPOCHS)]
    assert expected[-1] < expected[0]
    with running(BothLoops, folder, SETTINGS, OmegaConf.to_yaml(compose("gpus=0"), resolve=True)) as worker:
        for losses in worker.call("losses"):
            assert losses == pytest.approx(expected, abs=1e-4)


def test_an_engine_of_another_device_and_one_without_its_packages_are_left_out_with_a_line() -> None:
    plain = Implementation("toolkit.loops.PlainLoop")
    elsewhere = Implementation("toolkit.returnn.ReturnnTensorflow", devices=["cpu"])
    absent = Implementation("toolkit.returnn.Returnn", packages=["torch", "no_such_toolkit"])
    engines = {"tensorflow": elsewhere, "plain": plain}
    assert choose_runnable(engines, "cpu") == (engines, [])
    runnable, notes = choose_runnable({**engines, "absent": absent}, "gpu")
    assert list(runnable) == ["plain"]
    assert notes == [
        "tensorflow left out: it only runs on cpu",
        "absent left out, no_such_toolkit not installed: pip install '.[benchmarks]'",
    ]


def test_one_worker_has_nothing_to_average() -> None:
    ways = list_ways([1, 2], [None, 10])
    assert ways == {"1 worker": (1, None), "2 workers": (2, None), "2 workers, every 10 steps": (2, 10)}
