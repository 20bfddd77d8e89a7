"""The row convolution: its formula, its edges, what it can see."""

import pytest
import torch

from asr_ablations.components.model.ds2 import Lookahead
from asr_ablations.tools.errors import UsageError

LENGTHS = torch.tensor([6, 0, 1, 4])
FRAMES, SIZE = 2, 3


def lookahead(frames: int = FRAMES) -> Lookahead:
    torch.manual_seed(2)
    return Lookahead(SIZE, frames)


def inputs() -> torch.Tensor:
    return torch.randn(len(LENGTHS), 7, SIZE, generator=torch.Generator().manual_seed(3))


def test_it_is_the_formula_of_amodei_et_al() -> None:
    """2016, §3.7: r_(t,i) = Σ_j W_(i,j) h_(t+j-1,i), j from 1 to τ + 1; nothing lies past an utterance."""
    module, x = lookahead(), inputs()
    weights = module.convolve.weight[:, 0]  # (D, τ + 1)
    expected = torch.zeros_like(x)
    for row, length in enumerate(LENGTHS.tolist()):
        for t in range(length):
            for j in range(min(FRAMES + 1, length - t)):
                expected[row, t] += weights[:, j] * x[row, t + j]
    torch.testing.assert_close(module(x, LENGTHS), expected)


def test_alone_as_in_a_batch_and_padding_is_not_read() -> None:
    module, x = lookahead(), inputs()
    together = module(x, LENGTHS)
    garbage = torch.where((torch.arange(7) < LENGTHS[:, None])[..., None], x, torch.tensor(1e6))
    assert torch.equal(module(garbage, LENGTHS), together)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = module(x[row : row + 1, :length], LENGTHS[row : row + 1]) if length else together[row : row + 1, :0]
        torch.testing.assert_close(alone[0], together[row, :length])


@pytest.mark.parametrize("frames", [1, 3])
def test_it_sees_so_many_frames_ahead_and_no_more(frames: int) -> None:
    module, x = lookahead(frames), inputs()
    changed = x.clone()
    changed[0, 5] += 1.0
    moved = (module(changed, LENGTHS) - module(x, LENGTHS))[0].abs().sum(dim=-1) > 0
    assert moved.tolist() == [5 - frames <= t <= 5 for t in range(7)]


@pytest.mark.parametrize("frames", [-1, 0.5, "far", True])
def test_a_wrong_number_is_named(frames: object) -> None:
    with pytest.raises(UsageError, match=f"lookahead={frames}: expected a whole number of frames"):
        Lookahead(SIZE, frames)  # type: ignore[arg-type]
