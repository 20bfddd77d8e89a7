"""Kernels of our own are taken where they give the reference's numbers, and nothing else happens where they do not."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import library

from asr_ablations.tools.products import trusted


@pytest.fixture(scope="module")
def operators() -> library.Library:
    fresh = library.Library("asr_ablations_tried", "DEF")
    fresh.define("twice(Tensor x) -> Tensor")
    return fresh


@pytest.mark.parametrize(
    ("difference", "says"),
    [(lambda: 1e-6, ""), (lambda: 0.5, "slower: off by 0.5\n"), (lambda: math.nan, "slower: off by nan\n")],
)
def test_the_numbers_decide(
    operators: library.Library, difference: Callable[[], float], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trusted(dict, operators, difference, "slower") == (not says)
    assert capsys.readouterr().err == says


def test_without_a_compiler_the_training_goes_on(
    operators: library.Library, capsys: pytest.CaptureFixture[str]
) -> None:
    def load() -> dict[str, object]:
        raise ImportError("no module named triton\nand a page about it")

    assert not trusted(load, operators, lambda: 0.0, "slower")
    assert capsys.readouterr().err == "slower: no module named triton\n"


def test_kernels_are_put_in_their_places(operators: library.Library) -> None:
    assert trusted(lambda: {"twice": lambda x: 2 * x}, operators, lambda: 0.0, "slower")
    assert torch._C._dispatch_has_kernel_for_dispatch_key("asr_ablations_tried::twice", "CUDA")
