"""Masks, and normalisation of each utterance over its own frames."""

import numpy as np
import pytest
import torch

from asr_ablations.tools.masks import normalise_utterances, valid_frames

CPU = torch.device("cpu")
LENGTHS = torch.tensor([7, 0, 1, 4])


def features() -> torch.Tensor:
    return 5 + 3 * torch.randn(4, 7, 3, generator=torch.Generator().manual_seed(6))


@pytest.mark.parametrize("lengths", [[3, 0, 1], [0], [5, 5], []])
def test_a_frame_is_valid_before_the_length(lengths: list[int]) -> None:
    mask = valid_frames(torch.tensor(lengths, dtype=torch.long), 5, CPU)
    assert mask.tolist() == [[position < length for position in range(5)] for length in lengths]


def test_each_bin_is_normalised_over_the_valid_frames() -> None:
    x = features()
    found = normalise_utterances(x, LENGTHS)
    for row, length in ((0, 7), (3, 4)):
        own = x[row, :length].numpy()
        expected = (own - own.mean(axis=0)) / own.std(axis=0)
        np.testing.assert_allclose(found[row, :length].numpy(), expected, atol=1e-4)


def test_padding_is_zero_and_never_read() -> None:
    x, garbage = features(), features()
    for row, length in enumerate(LENGTHS.tolist()):
        garbage[row, length:] = -1e4
    found = normalise_utterances(garbage, LENGTHS)
    torch.testing.assert_close(found, normalise_utterances(x, LENGTHS))
    assert (found[~valid_frames(LENGTHS, 7, CPU)] == 0).all()


def test_alone_as_in_a_batch() -> None:
    x = features()
    together = normalise_utterances(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = normalise_utterances(x[row : row + 1, :length], LENGTHS[row : row + 1])
        torch.testing.assert_close(alone[0], together[row, :length])


def test_loudness_drops_out() -> None:
    """Log energies of a recording twice as loud lie higher by a constant: nothing of it is left."""
    x = features()
    torch.testing.assert_close(
        normalise_utterances(x + 1.386, LENGTHS), normalise_utterances(x, LENGTHS), atol=1e-4, rtol=0
    )


def test_constant_bins_and_single_frames_become_zero() -> None:
    constant = torch.full((2, 5, 3), -23.0)
    assert normalise_utterances(constant, torch.tensor([5, 1])).abs().max() < 1e-3
    assert normalise_utterances(features(), torch.ones(4, dtype=torch.long)).abs().max() == 0
