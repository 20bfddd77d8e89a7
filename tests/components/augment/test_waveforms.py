"""Augmentations of waveforms: speed and noise by their definitions, and what CTC can still learn from."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch_order import EpochBatch
from asr_ablations.data.dataset import Perturbation, Speech
from asr_ablations.data.utterances import Utterance
from asr_ablations.tools.errors import UsageError
from tests.helpers.every_key import file_keys
from tests.helpers.support import component, group_options

SECONDS = np.arange(16000) / 16000


@pytest.fixture
def noises(tmp_path: Path) -> Path:
    """A long recording and a short one, a folder deep."""
    (tmp_path / "deep").mkdir()
    drawn = np.random.default_rng(0)
    for name, length in (("long.wav", 48000), ("deep/short.flac", 700)):
        soundfile.write(tmp_path / name, drawn.integers(-9000, 9000, length).astype(np.int16), 16000)
    return tmp_path


def drawn(
    name: str, noises: Path, seed: int = 1, epoch: int = 2, length: int = 4000, suffix: str = ""
) -> list[np.ndarray]:
    """The same waveform as twenty utterances."""
    augment = component("augment", name, **dict.fromkeys(file_keys(f"augment={name}"), str(noises)))
    samples = np.random.default_rng(3).integers(-5000, 5000, length).astype(np.int16)
    before = samples.copy()
    result = [augment.waveform(samples, f"{i}{suffix}", seed, epoch) for i in range(20)]
    assert np.array_equal(samples, before), "what is read may be a cache's or remembered"
    assert all(x.dtype == np.int16 for x in result)
    return result


def same(result: list[np.ndarray], expected: list[np.ndarray]) -> bool:
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


@pytest.mark.parametrize("name", group_options("augment"))
@pytest.mark.parametrize("length", [0, 1])
def test_waveforms_of_no_and_of_one_sample(name: str, noises: Path, length: int) -> None:
    assert {len(x) for x in drawn(name, noises, length=length)} <= {length, 2 * length}


@pytest.mark.parametrize("key", ["lowest", "highest"])
def test_noise_has_no_dead_knobs(noises: Path, key: str) -> None:
    samples = np.random.default_rng(3).integers(-5000, 5000, 4000).astype(np.int16)
    written = component("augment", "noise", folder=str(noises))
    changed = component("augment", "noise", folder=str(noises), **{key: 15})
    assert not same([written.waveform(samples, "a", 0, 0)], [changed.waveform(samples, "a", 0, 0)])


@pytest.mark.parametrize("factor", [0.9, 1.1, 0.95])
def test_speed_moves_a_tone_and_the_length(factor: float) -> None:
    """A tone of 440 Hz at 1.1 times its speed is one of 484 Hz, a tenth shorter."""
    tone = (8000 * np.sin(2 * np.pi * 440 * SECONDS)).astype(np.int16)
    result = component("augment", "speed", factors=[factor]).waveform(tone, "a", 0, 0)
    assert len(result) == int(np.ceil(16000 / factor))
    expected = 8000 * np.sin(2 * np.pi * 440 * factor * np.arange(len(result)) / 16000)
    inner = slice(200, -200)  # the filter reaches past the ends
    assert np.abs(result[inner] - expected[inner]).max() < 0.01 * 8000


def test_speeds_are_drawn_evenly() -> None:
    speed, samples = component("augment", "speed"), np.ones(900, np.int16)
    lengths = [len(speed.waveform(samples, str(i), 0, 0)) for i in range(600)]
    values, counts = np.unique(lengths, return_counts=True)
    assert values.tolist() == [819, 900, 1000]
    assert counts.min() > 150


def test_speed_one_leaves_every_sample() -> None:
    samples = np.random.default_rng(0).integers(-32768, 32767, 999).astype(np.int16)
    assert component("augment", "speed", factors=[1.0]).waveform(samples, "a", 0, 0) is samples


@pytest.mark.parametrize("decibels", [0, 10, 20])
def test_noise_has_the_drawn_ratio(noises: Path, decibels: float) -> None:
    samples = (4000 * np.sin(2 * np.pi * 300 * SECONDS)).astype(np.int16)
    noise = component("augment", "noise", folder=str(noises), lowest=decibels, highest=decibels)
    for id_ in map(str, range(5)):
        added = noise.waveform(samples, id_, 0, 0).astype(float) - samples
        ratio = 10 * np.log10(np.square(samples.astype(float)).mean() / np.square(added).mean())
        assert ratio == pytest.approx(decibels, abs=0.05)


def test_a_silent_utterance_gets_no_noise(noises: Path) -> None:
    silence = np.zeros(500, np.int16)
    assert not component("augment", "noise", folder=str(noises)).waveform(silence, "a", 0, 0).any()


@pytest.mark.parametrize("folder", [None, "nowhere", "empty"])
def test_noise_needs_a_folder_of_audio(tmp_path: Path, folder: str | None) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"augment\.folder=.*recordings of noise"):
        component("augment", "noise", folder=folder and str(tmp_path / folder))


@pytest.mark.parametrize("factors", [[], [0.1], [1, 5]])
def test_speeds_out_of_range_are_refused(factors: list[float]) -> None:
    with pytest.raises(UsageError, match=r"from 0\.25 to 4"):
        component("augment", "speed", factors=factors)


class Ones:
    """A store of half a second of ones for every utterance."""

    decodes = True

    def read(self, utterance: Utterance) -> tuple[np.ndarray, int]:
        return np.ones(8000, np.int16), 8000


def test_what_would_become_too_short_for_ctc_keeps_its_speed_and_evaluation_always() -> None:
    """At 20 frames a second half a second is 10 frames, and played 1.1 times as fast 9."""
    fast = component("augment", "speed", factors=[1.1])
    perturbation = Perturbation(fast.waveform, lambda samples: samples * 20 // 16000, seed=0)
    texts = ["abcdefghij", "abcdefghi", "aabbccd", "aabbc"]
    utterances = [Utterance(text, "s", Path(text), 0.0, 0.5, text) for text in texts]
    speech = Speech(utterances, Alphabet("abcdefghij"), Ones(), perturbation)
    drawn = EpochBatch(range(4))
    drawn.epoch = 0
    assert [item.samples for item in speech.__getitems__(drawn)] == [8000, 7273, 8000, 7273]  # type: ignore[union-attr]
    assert [item.samples for item in speech.__getitems__([0, 1, 2, 3])] == [8000] * 4  # type: ignore[union-attr]
    assert int(perturbation.output_frames(torch.tensor([7273]))) == 9
