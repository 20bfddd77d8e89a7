"""Every augmentation: drawn from (seed, epoch, id) alone, padding left alone, no dead knobs; SpecAugment's limits."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from asr_ablations.components.augment.none import NoAugmentation
from tests.helpers.every_key import file_keys
from tests.helpers.support import component, group_options, knobs, turned

Augment = Callable[..., torch.Tensor]
LENGTHS = torch.tensor([400, 0, 1, 100, 37])
IDS = ["a-1", "b-2", "c-3", "d-4", "e-5"]
BINS = 80
VARIANTS = [name for name in group_options("augment") if not file_keys(f"augment={name}")]
"""Those that need a folder are tested in test_waveforms.py."""

every_variant = pytest.mark.parametrize("name", VARIANTS)


def features() -> torch.Tensor:
    """(B, T, F), zeros past the lengths as the model's input has them."""
    drawn = torch.randn(len(IDS), 400, BINS, generator=torch.Generator().manual_seed(5))
    return drawn * (torch.arange(400) < LENGTHS[:, None])[..., None]


def augmented(augment: Augment, rows: list[int] | None = None, seed: int = 1, epoch: int = 2) -> torch.Tensor:
    """Some rows in some order, as one batch as long as its longest."""
    rows = list(range(len(IDS))) if rows is None else rows
    lengths = LENGTHS[rows]
    frames = max(1, int(lengths.max()))
    return augment(features()[rows, :frames], lengths, [IDS[row] for row in rows], seed, epoch)


CHANGING = [name for name in VARIANTS if not torch.equal(augmented(component("augment", name)), features())]


@every_variant
def test_batch_mates_and_their_order_change_nothing(name: str) -> None:
    augment = component("augment", name)
    together, turned_round = augmented(augment), augmented(augment, [4, 3, 2, 1, 0]).flip(0)
    torch.testing.assert_close(turned_round, together)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(augmented(augment, [row])[0, :length], together[row, :length])


@every_variant
def test_the_same_seed_epoch_and_id_give_the_same(name: str) -> None:
    result = augmented(component("augment", name))
    torch.manual_seed(99)
    assert torch.equal(result, augmented(component("augment", name)))


@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("change", [{"seed": 7}, {"epoch": 3}])
def test_another_seed_or_epoch_gives_another(name: str, change: dict[str, int]) -> None:
    augment = component("augment", name)
    assert not torch.equal(augmented(augment), augmented(augment, **change))


@pytest.mark.parametrize("name", CHANGING)
def test_another_id_gives_another(name: str) -> None:
    x = features()[:1].expand(2, -1, -1)
    y = component("augment", name)(x, LENGTHS[[0, 0]], ["one", "two"], 1, 2)
    assert not torch.equal(y[0], y[1])


@every_variant
def test_padding_stays_zero_and_the_input_as_it_was(name: str) -> None:
    augment, x = component("augment", name), features()
    y = augment(x, LENGTHS, IDS, 1, 2)
    assert torch.equal(x, features())
    assert all((row[length:] == 0).all() for row, length in zip(y, LENGTHS.tolist(), strict=True))


def test_none_is_the_identity() -> None:
    assert torch.equal(augmented(component("augment", "none")), features())


def outcome(augment: NoAugmentation, epoch: int) -> tuple[torch.Tensor, list[list[int]]]:
    """What becomes of the features and of some waveforms."""
    return augmented(augment, epoch=epoch), [
        augment.waveform(np.arange(90, dtype=np.int16), id_, 1, epoch).tolist() for id_ in IDS
    ]


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, key in knobs("augment") if name in VARIANTS])
def test_no_dead_knobs(name: str, key: str) -> None:
    for epoch in range(20):
        (a, x), (b, y) = outcome(component("augment", name), epoch), outcome(turned("augment", name, key), epoch)
        if x != y or not torch.equal(a, b):
            return
    pytest.fail(f"{key} changes nothing")


OFF = {"frequency_masks": 0, "time_masks": 0}


@pytest.mark.parametrize("change", [OFF, {"frequency_width": 0, "time_width": 0}, {**OFF, "time_share": 0.0}])
def test_specaugment_without_masks_is_the_identity(change: dict[str, float]) -> None:
    assert torch.equal(augmented(component("augment", "specaugment", **change)), features())


def test_warp_of_nothing_is_the_identity() -> None:
    augment = component("augment", "warp_specaugment", **{"steps.0.most": 0.0}).steps[0]
    torch.testing.assert_close(augmented(augment), features())


def widths(change: dict[str, float], length: int, over: str) -> tuple[set[int], torch.Tensor]:
    """Widths of a lone mask over 2000 utterances, and how often each place was covered."""
    alone = {"frequency_masks": int(over == "frequency"), "time_masks": int(over == "time")}
    augment = component("augment", "specaugment", **{"frequency_width": 2, **change, **alone})
    ones = torch.ones(2000, length, BINS if over == "frequency" else 2)
    masked = augment(ones, torch.full((2000,), length), [str(i) for i in range(2000)], 0, 0) == 0
    line = masked.all(dim=2 if over == "time" else 1)
    edges = torch.diff(line.int(), prepend=torch.zeros(2000, 1, dtype=torch.int))
    assert int((edges > 0).sum(dim=1).max()) <= 1, "one mask is one stretch"
    return set(line.sum(dim=1).tolist()), line.sum(dim=0)


@pytest.mark.parametrize("width", [1, 4, 15])
def test_frequency_masks_have_every_width_to_their_limit(width: int) -> None:
    result, covered = widths({"frequency_width": width}, 3, "frequency")
    assert result == set(range(width + 1))
    assert (covered > 0).all()


@pytest.mark.parametrize(
    ("width", "share", "length"), [(5, 1.0, 60), (25, 0.1, 60), (25, 0.1, 58), (25, 0.1, 9), (9, 0.5, 11)]
)
def test_time_masks_have_every_width_to_the_smaller_limit(width: int, share: float, length: int) -> None:
    """Neither time_width frames nor time_share of the utterance are exceeded, by a part of a frame either."""
    result, covered = widths({"time_width": width, "time_share": share}, length, "time")
    widest = min(width, int(share * length + 1e-9))
    assert result == set(range(widest + 1))
    assert widest == 0 or (covered > 0).all()


def test_frequency_warp_reads_bin_f_times_a() -> None:
    """A ramp over the bins comes out as a ramp with the slope a = 1 ± most, clamped at the last bin."""
    augment = component("augment", "warp_specaugment").steps[0]
    ramp = torch.arange(float(BINS)).expand(30, 2, BINS)
    y = augment(ramp, torch.full((30,), 2), [str(i) for i in range(30)], 0, 0)
    slopes = y[:, 0, 1]
    torch.testing.assert_close(y[:, 1], (torch.arange(BINS) * slopes[:, None]).clamp(max=BINS - 1), atol=1e-3, rtol=0)
    assert 1 - augment.most <= slopes.min() < 1 < slopes.max() <= 1 + augment.most
