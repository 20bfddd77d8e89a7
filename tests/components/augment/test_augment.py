"""The contract of augmentations, and those of waveforms."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from asr_ablations.data.alphabet import Letters
from asr_ablations.data.batch import EpochBatch
from asr_ablations.data.datamodule import Perturbation, Speech
from asr_ablations.data.utterances import Utterance
from tests.helpers.every_key import file_keys
from tests.helpers.support import component, group_options

LENGTHS = torch.tensor([400, 0, 1, 100, 37])
IDS = ["a-1", "b-2", "c-3", "d-4", "e-5"]
BINS = 80
VARIANTS = [name for name in group_options("augment") if not file_keys(f"augment={name}")]
"""Those that need a folder are tested below."""

every_variant = pytest.mark.parametrize("name", VARIANTS)


def features() -> torch.Tensor:
    """(B, T, F), zeros past the lengths as the model's input has them."""
    drawn = torch.randn(len(IDS), 400, BINS, generator=torch.Generator().manual_seed(5))
    return drawn * (torch.arange(400) < LENGTHS[:, None])[..., None]


def augmented(augment: Any, rows: list[int] | None = None, seed: int = 1, epoch: int = 2) -> torch.Tensor:
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
        assert not together[row, length:].any(), "padding stays zero"
    augment(x := features(), LENGTHS, IDS, 1, 2)
    assert torch.equal(x, features()), "and the input as it was"


@pytest.mark.parametrize("name", CHANGING)
def test_another_seed_epoch_or_id_gives_another(name: str) -> None:
    augment = component("augment", name)
    for change in ({"seed": 7}, {"epoch": 3}):
        assert not torch.equal(augmented(augment), augmented(augment, **change))
    y = augment(features()[:1].expand(2, -1, -1), LENGTHS[[0, 0]], ["one", "two"], 1, 2)
    assert not torch.equal(y[0], y[1])


def test_masks_have_every_width_to_their_limit() -> None:
    """Neither time_width frames nor time_share of the utterance are exceeded, by a part of a frame either."""

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

    for width in (1, 15):
        result, covered = widths({"frequency_width": width}, 3, "frequency")
        assert result == set(range(width + 1))
        assert (covered > 0).all()
    for width, share, length in ((5, 1.0, 60), (25, 0.1, 58), (25, 0.1, 9), (9, 0.5, 11)):
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


SECONDS = np.arange(16000) / 16000


@pytest.fixture
def noises(tmp_path: Path) -> Path:
    """A long recording and a short one, a folder deep."""
    (tmp_path / "deep").mkdir()
    drawn = np.random.default_rng(0)
    for name, length in (("long.wav", 48000), ("deep/short.flac", 700)):
        soundfile.write(tmp_path / name, drawn.integers(-9000, 9000, length).astype(np.int16), 16000)
    return tmp_path


def drawn(name: str, noises: Path, seed: int = 1, epoch: int = 2, length: int = 4000, suffix: str = "") -> list[Any]:
    """The same waveform as twenty utterances."""
    augment = component("augment", name, **dict.fromkeys(file_keys(f"augment={name}"), str(noises)))
    samples = np.random.default_rng(3).integers(-5000, 5000, length).astype(np.int16)
    before = samples.copy()
    result = [augment.waveform(samples, f"{i}{suffix}", seed, epoch) for i in range(20)]
    assert np.array_equal(samples, before), "what is read may be a cache's or remembered"
    assert all(x.dtype == np.int16 for x in result)
    return result


def same(result: list[Any], expected: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True))


@pytest.mark.parametrize("name", group_options("augment"))
def test_waveforms_are_drawn_from_seed_epoch_and_id_alone(name: str, noises: Path) -> None:
    result = drawn(name, noises)
    torch.manual_seed(9)
    np.random.seed(9)
    assert same(drawn(name, noises), result)
    changes = component("augment", name, **dict.fromkeys(file_keys(f"augment={name}"), str(noises))).changes_waveforms
    for other in (drawn(name, noises, seed=7), drawn(name, noises, epoch=3), drawn(name, noises, suffix="x")):
        assert same(other, result) != changes
    for length in (0, 1):
        assert {len(x) for x in drawn(name, noises, length=length)} <= {length, 2 * length}


def test_speed_moves_a_tone_and_the_length_and_is_drawn_evenly() -> None:
    """A tone of 440 Hz at 1.1 times its speed is one of 484 Hz, a tenth shorter."""
    for factor in (0.9, 1.1):
        tone = (8000 * np.sin(2 * np.pi * 440 * SECONDS)).astype(np.int16)
        result = component("augment", "speed", factors=[factor]).waveform(tone, "a", 0, 0)
        assert len(result) == int(np.ceil(16000 / factor))
        expected = 8000 * np.sin(2 * np.pi * 440 * factor * np.arange(len(result)) / 16000)
        inner = slice(200, -200)  # the filter reaches past the ends
        assert np.abs(result[inner] - expected[inner]).max() < 0.01 * 8000
    speed, samples = component("augment", "speed"), np.ones(900, np.int16)
    lengths = [len(speed.waveform(samples, str(i), 0, 0)) for i in range(600)]
    values, counts = np.unique(lengths, return_counts=True)
    assert values.tolist() == [819, 900, 1000]
    assert counts.min() > 150


def test_noise_has_the_drawn_ratio_and_a_silent_utterance_gets_none(noises: Path) -> None:
    samples = (4000 * np.sin(2 * np.pi * 300 * SECONDS)).astype(np.int16)
    for decibels in (0, 20):
        noise = component("augment", "noise", folder=str(noises), lowest=decibels, highest=decibels)
        for id_ in map(str, range(5)):
            added = noise.waveform(samples, id_, 0, 0).astype(float) - samples
            ratio = 10 * np.log10(np.square(samples.astype(float)).mean() / np.square(added).mean())
            assert ratio == pytest.approx(decibels, abs=0.05)
    assert not component("augment", "noise", folder=str(noises)).waveform(np.zeros(500, np.int16), "a", 0, 0).any()


def test_what_would_become_too_short_for_ctc_keeps_its_speed_and_evaluation_always() -> None:
    """At 20 frames a second half a second is 10 frames, and played 1.1 times as fast 9."""
    fast = component("augment", "speed", factors=[1.1])
    perturbation = Perturbation(fast.waveform, lambda samples: samples * 20 // 16000, seed=0)
    texts = ["abcdefghij", "abcdefghi", "aabbccd", "aabbc"]
    utterances = [Utterance(text, "s", Path(text), 0.0, 0.5, text) for text in texts]
    ones = SimpleNamespace(decodes=True, read=lambda utterance: (np.ones(8000, np.int16), 8000))
    speech = Speech(utterances, Letters("abcdefghij"), ones, perturbation)
    drawn = EpochBatch(range(4))
    drawn.epoch = 0
    assert [item.samples for item in speech.__getitems__(drawn)] == [8000, 7273, 8000, 7273]  # type: ignore[union-attr]
    assert [item.samples for item in speech.__getitems__([0, 1, 2, 3])] == [8000] * 4  # type: ignore[union-attr]
    assert int(perturbation.output_frames(torch.tensor([7273]))) == 9
