"""Every kind of features: lengths, padding, dead knobs; and the values against Kaldi's own."""

import math

import numpy as np
import pytest
import soundfile
import torch
import torchaudio

from asr_ablations.components.features.spectrogram import TAPERS, PowerSpectrum, transform_in_few_shapes
from asr_ablations.tools.masks import normalise_utterances
from tests.helpers.support import component, group_options, shared_data

LENGTHS = torch.tensor([8000, 0, 4321, 5, 16000])
INT16 = 2 * math.log(32768)
"""Kaldi reads samples as -32768..32767, which adds this to every log energy."""

every_variant = pytest.mark.parametrize("name", group_options("features"))
every_spectrum = pytest.mark.parametrize("name", [name for name in group_options("features") if name != "waveform"])


def waveforms() -> torch.Tensor:
    """(B, S), zeros past the lengths."""
    samples = 0.1 * torch.randn(len(LENGTHS), int(LENGTHS.max()), generator=torch.Generator().manual_seed(4))
    return samples * (torch.arange(samples.shape[1]) < LENGTHS[:, None])


@every_variant
def test_alone_as_in_a_batch_padding_is_not_read_and_silence_finite(name: str) -> None:
    features, samples = component("features", name), waveforms()
    together, frames = features(samples, LENGTHS)
    for row, (length, count) in enumerate(zip(LENGTHS.tolist(), frames.tolist(), strict=True)):
        alone, alone_frames = features(samples[row : row + 1, :length], LENGTHS[row : row + 1])
        assert alone_frames.tolist() == [count]
        assert alone.shape == (1, count, features.size)
        torch.testing.assert_close(together[row, :count], alone[0], atol=1e-4, rtol=1e-5)
    garbage = torch.where(torch.arange(samples.shape[1]) < LENGTHS[:, None], samples, torch.tensor(0.9))
    dirty, _ = features(garbage, LENGTHS)
    assert all(torch.equal(dirty[row, :count], together[row, :count]) for row, count in enumerate(frames.tolist()))
    assert features(torch.zeros(1, 3000), torch.tensor([3000]))[0].isfinite().all(), "of silence"


@every_spectrum
def test_lengths_count_whole_windows(name: str) -> None:
    features = component("features", name)
    spectrum = next(m for m in features.modules() if isinstance(m, PowerSpectrum))
    for length in (0, 1, spectrum.window_size - 1, spectrum.window_size, spectrum.window_size + spectrum.hop, 9999):
        expected = len(range(0, length - spectrum.window_size + 1, spectrum.hop))
        result, frames = features(torch.zeros(1, length), torch.tensor([length]))
        assert result.shape[1] == expected
        assert frames.tolist() == features.frames(torch.tensor([length])).tolist() == [expected]


def test_a_waveform_is_normalised_as_wav2vec_expects() -> None:
    """Baevski et al. 2020, §4.1: mean 0 and variance 1 of each utterance's own samples."""
    features, samples = component("features", "waveform"), waveforms()
    frames, lengths = features(samples, LENGTHS)
    assert lengths.tolist() == LENGTHS.tolist() == features.frames(LENGTHS).tolist()
    normalised = normalise_utterances(frames, lengths)[..., 0]
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            expected = torch.nn.functional.layer_norm(samples[row, :length], (length,), eps=0)
            torch.testing.assert_close(normalised[row, :length], expected, atol=1e-3, rtol=0)
        assert not normalised[row, length:].any()


def kaldi(name: str) -> np.ndarray:
    """A matrix in Kaldi's text format."""
    lines = shared_data(f"golden/features/kaldi/{name}").read_text().splitlines()[1:]
    return np.array([line.rstrip("]").split() for line in lines], dtype=np.float64)


def kaldis_wav() -> torch.Tensor:
    """(1, S)"""
    samples, rate = soundfile.read(shared_data("golden/features/kaldi/test.wav"), dtype="float32")
    assert rate == 16000
    return torch.from_numpy(samples)[None]


@pytest.mark.parametrize(("bins", "file"), [(40, "test-40.txt"), (23, "test.txt")])
def test_logmel_is_kaldis_fbank(bins: int, file: str) -> None:
    """compute-fbank-feats --dither=0 --num-mel-bins=<bins>, all else Kaldi's default: 25 ms by 10 ms, 20 Hz to 8 kHz.
    Kaldi's own float32 FFT is off by up to 0.03 where a filter holds a millionth of the frame's energy.
    """
    logmel = component("features", "logmel", bins=bins, window=0.025, hop=0.010, low=20.0, high=8000.0)
    samples, expected = kaldis_wav(), kaldi(file)
    result = logmel(samples, torch.tensor([samples.shape[1]]))[0][0].numpy() + INT16
    assert result.shape == expected.shape
    difference = np.abs(result - expected)
    assert difference.max() < 0.04
    assert difference.mean() < 5e-4


def test_cepstra_are_kaldis_mfcc() -> None:
    """compute-mfcc-feats --dither=0, all else Kaldi's default: 23 bins, 25 ms by 10 ms, lifter 22. Its first column is
    the energy; ours the zeroth coefficient, as torchaudio's port of Kaldi has it with --use-energy=false. Kaldi's own
    float32 FFT is off by up to 0.03 in some energies, which the lifter multiplies by up to 12.
    """
    sizes = {"bins": 23, "cepstra": 13, "window": 0.025, "hop": 0.010, "low": 20.0, "high": 8000.0}
    features, samples = component("features", "logmel_mfcc", **sizes), kaldis_wav()
    result = features(samples, torch.tensor([samples.shape[1]]))[0][0, :, 23:]
    expected = kaldi("test-mfcc.txt")
    assert result.shape == expected.shape
    difference = np.abs(result.numpy() - expected)[:, 1:]
    assert difference.max() < 0.1
    assert difference.mean() < 1e-2
    zeroth = torchaudio.compliance.kaldi.mfcc(samples * 32768, use_energy=False)[:, 0] - INT16 * math.sqrt(23)
    torch.testing.assert_close(result[:, 0], zeroth, atol=1e-2, rtol=1e-4)


@pytest.mark.parametrize("preemphasis", [0.0, 0.97])
@pytest.mark.parametrize("taper", TAPERS)
def test_emphasis_and_window_are_those_of_kaldis_port_in_torchaudio(taper: str, preemphasis: float) -> None:
    """torchaudio.compliance.kaldi.spectrogram, whose FFT is as long as the next power of two: 512 samples. Bins are
    compared to the frame's whole power.
    """
    samples = waveforms()[4:]
    expected = torchaudio.compliance.kaldi.spectrogram(
        samples, frame_length=32.0, frame_shift=10.0, window_type={"hann": "hanning"}.get(taper, taper),
        preemphasis_coefficient=preemphasis, raw_energy=False, dither=0.0,
    ).exp()[:, 1:]  # fmt: skip
    result = PowerSpectrum(512, 160, 512, preemphasis=preemphasis, taper=taper)(samples)[0, :, 1:]
    assert result.shape == expected.shape
    assert float(((result - expected).abs() / expected.sum(dim=1, keepdim=True)).max()) < 1e-5


def test_without_variance_only_the_mean_of_each_bin_is_removed() -> None:
    """Of valid frames, and padding becomes 0."""
    features, frames = component("features", "spectrogram", variance=False)(waveforms(), LENGTHS)
    kept = normalise_utterances(features, frames, variance=False)
    for row, count in zip((0, 2, 4), frames[[0, 2, 4]].tolist(), strict=True):
        expected = features[row, :count] - features[row, :count].mean(dim=0)
        torch.testing.assert_close(kept[row, :count], expected, atol=1e-4, rtol=1e-4)
        assert not kept[row, count:].any()


def test_frames_are_transformed_in_few_shapes_on_a_gpu() -> None:
    frames = torch.randn(3, 41, 320, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(transform_in_few_shapes(frames, 320), torch.fft.rfft(frames, n=320))
    torch.testing.assert_close(transform_in_few_shapes(frames, 512), torch.fft.rfft(frames, n=512))
