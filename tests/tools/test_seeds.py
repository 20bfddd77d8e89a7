"""Random streams: apart from one another, the same everywhere, and uniform."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from asr_ablations.tools.random_streams import generator, stream, uniforms
from tests.helpers.support import REPOSITORY

ARGUMENTS: list[tuple[Any, ...]] = [
    *[(0, "init"), (1, "init"), (0, "order"), (0, "order", 1), (0, "order", 2), (0, "order", "1", "")],
    *[(0,), (10,), (1, 0), (10, ""), (0, "a", "bc"), (0, "ab", "c")],
]


def test_every_argument_makes_another_stream() -> None:
    assert len({stream(*arguments) for arguments in ARGUMENTS}) == len(ARGUMENTS)
    assert len({generator(*arguments).random() for arguments in ARGUMENTS}) == len(ARGUMENTS)
    assert len({float(uniforms(1, *arguments)[0]) for arguments in ARGUMENTS}) == len(ARGUMENTS)


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_streams_fit_torch_and_numpy(seed: int) -> None:
    assert all(0 <= stream(seed, name) < 2**63 for name in map(str, range(200)))


@pytest.mark.parametrize(("names", "b2sum"), [((0, "init"), "81557a7b6753d9bb"), ((3, "order", 7), "2004887eedfe001b")])
def test_a_stream_is_the_hash_that_it_has_always_been(names: tuple[int, ...], b2sum: str) -> None:
    """printf '0\\x1finit' | b2sum -l 64, read little-endian, without the lowest bit: old runs can be repeated."""
    assert stream(*names) == int.from_bytes(bytes.fromhex(b2sum), "little") >> 1


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_draws_are_the_same_in_every_process(hash_seed: str) -> None:
    draws = "s.stream(3, 'a'), s.generator(3, 'x').random(), *s.uniforms(9, 3, 'é')"
    code = f"import asr_ablations.tools.random_streams as s; print({draws})"
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(REPOSITORY / "src"), "PATH": ""}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    here = [stream(3, "a"), generator(3, "x").random(), *uniforms(9, 3, "é")]
    assert [float(word) for word in told.split()] == [float(value) for value in here]


def test_drawing_leaves_numpys_global_state() -> None:
    np.random.seed(1)
    expected = np.random.random()
    np.random.seed(1)
    generator(0, "x").random()
    uniforms(5, 0, "x")
    assert np.random.random() == expected


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_uniforms_have_a_common_beginning(count: int) -> None:
    assert uniforms(count, 4, "x").tolist() == uniforms(200, 4, "x")[:count].tolist()


def test_uniforms_are_uniform() -> None:
    """Mean 1/2 and variance 1/12 within five standard errors, each tenth equally full, neighbours uncorrelated."""
    count = 100_000
    drawn = uniforms(count, 0, "test")
    assert 0 <= drawn.min() < 1e-3
    assert 1 - 1e-3 < drawn.max() < 1
    assert abs(drawn.mean() - 1 / 2) < 5 * np.sqrt(1 / 12 / count)
    assert abs(drawn.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / count)
    tenths = np.bincount((drawn * 10).astype(int), minlength=10)
    assert np.abs(tenths - count / 10).max() < 5 * np.sqrt(count * 0.09)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / np.sqrt(count)
