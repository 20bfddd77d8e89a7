"""The cache: the same samples, one build for all processes, nothing half-built, damage detected and repaired."""

import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asr_ablations.config.build import build
from asr_ablations.data import audio, recording_cache
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.errors import UsageError
from tests.helpers.support import component, compose, tiny_overrides

FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def utterances(tiny_corpus: Path) -> list[Utterance]:
    read: list[Utterance] = build(compose(*tiny_overrides(tiny_corpus)).data).read("train")
    return read


def read_all(cache: Any, utterances: Sequence[Utterance]) -> list[np.ndarray]:
    opened = cache.open("train", utterances, 0)
    return [np.array(opened.read(u)[0]) for u in utterances]


def same(result: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(result, expected, strict=True))


def test_pcm_holds_the_samples_of_the_files_and_features_those_of_the_waveform_in_16_bits(
    utterances: list[Utterance], tmp_path: Path
) -> None:
    expected = [audio.read(u.audio, u.offset, u.duration) for u in utterances]
    cache = component("cache", "pcm", root=str(tmp_path))
    opened = cache.open("train", utterances, 0)
    assert [opened.read(u)[1] for u in utterances] == list(map(len, expected))
    assert same(read_all(cache, utterances), expected)
    opened = cache.open("train", utterances, 0)
    assert same([opened.read(u)[0] for u in reversed(utterances)], expected[::-1])
    cache = component("cache", "features", root=str(tmp_path))
    features = build(compose().features)
    opened = cache.open("train", utterances, 0)
    for u in utterances:
        samples = audio.read(u.audio, u.offset, u.duration)
        expected, frames = features(torch.from_numpy(samples)[None].float() / 32768, torch.tensor([len(samples)]))
        values, length = opened.read(u)
        assert (values.dtype, length, len(values)) == (np.float16, len(samples), int(frames))
        np.testing.assert_allclose(values, expected[0].numpy(), rtol=2**-10)


def test_a_file_is_decoded_once_while_there_is_memory(utterances: list[Utterance], tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    shutil.copy(utterances[0].audio, path)
    u = Utterance("a", "s", path, 0.0, utterances[0].duration, "a")
    remembers = component("cache", "none").open("train", [u], 0)
    forgets = component("cache", "none", gigabytes=0).open("train", [u], 0)
    first = remembers.read(u)[0]
    forgets.read(u)
    path.unlink()
    assert remembers.read(u)[0] is first
    with pytest.raises(UsageError, match="cannot read audio"):
        forgets.read(u)


@pytest.fixture
def built(utterances: list[Utterance], tmp_path: Path) -> Path:
    component("cache", "pcm", root=str(tmp_path)).open("train", utterances, 0)
    (folder,) = tmp_path.glob("pcm-train-*/")
    time.sleep(0.02)  # what is written within one tick of the clock of files has the same time
    return folder


def test_a_whole_cache_is_not_built_again_and_a_strangers_index_not_used(
    built: Path, utterances: list[Utterance]
) -> None:
    before = {f: f.stat().st_ino for f in built.iterdir()}
    component("cache", "pcm", root=str(built.parent)).open("train", utterances, 0)
    assert {f: f.stat().st_ino for f in before} == before
    # in a shared folder: nothing in it is executed
    np.save(built / "index.npy", np.array([[1, "a"], [2, None]], object))
    result = read_all(component("cache", "pcm", root=str(built.parent)), utterances)
    assert same(result, [audio.read(u.audio, u.offset, u.duration) for u in utterances])


def test_a_damaged_cache_is_found_and_built_anew(
    built: Path, utterances: list[Utterance], caplog: pytest.LogCaptureFixture
) -> None:
    for name, kept in (("values", None), ("values", 0.5), ("index.npy", 0.5), ("index.npy", 0)):
        caplog.clear()
        path = built / name
        content = path.read_bytes()
        path.unlink()
        if kept is not None:
            path.write_bytes(content[: int(len(content) * kept)])
        result = read_all(component("cache", "pcm", root=str(built.parent)), utterances)
        assert same(result, [audio.read(u.audio, u.offset, u.duration) for u in utterances])
        assert f"cache {built} is damaged and is being rebuilt" in caplog.text
        time.sleep(0.02)


def test_a_cache_that_is_cut_or_removed_while_a_run_reads_it(built: Path, utterances: list[Utterance]) -> None:
    """In a process that opened it, and in one that got it by pickle. What is behind the cut is refused, not a crash."""
    opened = component("cache", "pcm", root=str(built.parent)).open("train", utterances, 0)
    expected = [opened.read(u)[0] for u in utterances]
    os.truncate(built / "values", 2 * len(expected[0]))
    for cached in (opened, pickle.loads(pickle.dumps(opened))):
        assert same([cached.read(utterances[0])[0]], expected[:1])
        with pytest.raises(UsageError, match=r"pcm-train-.*values was truncated while it was being read"):
            cached.read(utterances[1])
    opened = component("cache", "pcm", root=str(built.parent)).open("train", utterances, 0)
    shutil.rmtree(built)
    assert same([opened.read(u)[0] for u in utterances], expected)


def test_a_full_disk_is_told_and_leaves_nothing(utterances: list[Utterance], tmp_path: Path) -> None:
    messages = FORK.SimpleQueue()

    def limited() -> None:
        """Build where no file may grow beyond 20 kB, which the kernel refuses in the middle of a write."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
        try:
            component("cache", "pcm", root=str(tmp_path)).open("train", utterances, 0)
        except UsageError as error:
            messages.put(str(error))

    process = FORK.Process(target=limited)
    process.start()
    process.join()
    assert not messages.empty()
    line = messages.get()
    assert line.startswith(f"cannot write the cache {tmp_path}")
    assert "cache.root" in line
    assert "\n" not in line
    assert [path.suffix for path in tmp_path.iterdir()] == []


def slow_build(root: Path, utterances: list[Utterance], begun: Any, go_on: Any, builds: Any) -> None:
    def read(utterance: Utterance) -> recording_cache.Recording:
        begun.set()
        go_on.wait(60)
        with builds.get_lock():
            builds.value += 1
        samples = audio.read(utterance.audio, utterance.offset, utterance.duration)
        return samples, len(samples)

    recording_cache.open_cache(root / "shared", Utterances.convert(utterances), read, np.int16, (), 1000)


def test_two_processes_build_once_and_the_second_uses_it(utterances: list[Utterance], tmp_path: Path) -> None:
    begun, go_on, builds = FORK.Event(), FORK.Event(), FORK.Value("i", 0)
    arguments = (tmp_path, utterances, begun, go_on, builds)
    processes = [FORK.Process(target=slow_build, args=arguments) for _ in range(2)]
    processes[0].start()
    assert begun.wait(60)
    processes[1].start()
    processes[1].join(0.5)
    assert processes[1].is_alive(), "it waits for the first"
    go_on.set()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert builds.value == len(utterances)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared"]


def test_what_a_killed_builder_left_is_removed_by_the_next(utterances: list[Utterance], tmp_path: Path) -> None:
    begun, go_on, builds = FORK.Event(), FORK.Event(), FORK.Value("i", 0)
    process = FORK.Process(target=slow_build, args=(tmp_path, utterances, begun, go_on, builds))
    process.start()
    assert begun.wait(60)
    os.kill(process.pid, signal.SIGKILL)  # type: ignore[arg-type]
    process.join()
    assert [path for path in tmp_path.iterdir() if path.is_dir()], "half-built, under a temporary name"
    again = FORK.Event()  # the killed one may hold a lock of the other two
    again.set()
    slow_build(tmp_path, utterances, FORK.Event(), again, FORK.Value("i", 0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shared"]
