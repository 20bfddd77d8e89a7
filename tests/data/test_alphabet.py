"""Alphabets and audio."""

import itertools
import operator
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr_ablations.data import audio
from asr_ablations.data.alphabet import Letters, shortest_path, shortest_paths
from asr_ablations.data.audio import AudioError
from asr_verdicts.errors import UsageError


@pytest.mark.parametrize("characters", ["aba", "", "  "])
def test_an_alphabet_without_or_with_doubled_characters_is_refused(characters: str) -> None:
    with pytest.raises(UsageError, match=f"{characters!r}: expected"):
        Letters(characters)


def test_foreign_characters_are_found_and_not_encoded() -> None:
    assert Letters("ab").foreign("añ b3ñ") == [" ", "3", "ñ"]
    assert Letters("ab").foreign("") == Letters("ab").foreign("baab") == []
    with pytest.raises(KeyError, match="c"):
        Letters("ab").encode("abc")


@pytest.mark.parametrize(("text", "frames"), [("", 0), ("ab", 2), ("aaa", 5), ("aab", 4)])
def test_shortest_path_has_a_blank_between_equal_neighbours(text: str, frames: int) -> None:
    assert shortest_path(Letters("ab").encode(text)) == frames


@pytest.mark.parametrize("separation", [None, "_"])
def test_many_texts_are_encoded_as_each_alone(separation: str | None) -> None:
    alphabet = Letters.with_separation("abż ", separation)
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("abż", repeat=n)]
    labels, counts = alphabet.encode_all(texts)
    expected = [alphabet.encode(text) for text in texts]
    assert [part.tolist() for part in np.split(labels, counts.cumsum())[:-1]] == expected
    least = [len(one) + sum(map(operator.eq, one, one[1:])) for one in expected]
    assert shortest_paths(labels, counts).tolist() == least
    assert [array.size for array in alphabet.encode_all([])] == [0, 0]


def test_among_many_texts_foreign_characters_have_no_index() -> None:
    labels, counts = Letters("ab").encode_all(["ab", "", "b\U0001f600`c"])
    assert labels.tolist() == [1, 2, 2, -1, -1, -1]
    assert counts.tolist() == [2, 0, 4]


def written(path: Path, samples: np.ndarray, rate: int = 16000) -> Path:
    soundfile.write(path, samples, rate, subtype="PCM_16")
    return path


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-20000, 20000, size=shape).astype(np.int16)


def test_samples_come_as_they_were_written(tmp_path: Path) -> None:
    samples = noise(5000)
    path = written(tmp_path / "a.flac", samples)
    assert audio.duration(path) == 5000 / 16000
    result = audio.read(path, 0.0, 5000 / 16000)
    assert result.dtype == np.int16
    np.testing.assert_array_equal(result, samples)
    np.testing.assert_array_equal(audio.read(path, 1000 / 16000, 250 / 16000), samples[1000:1250])


def test_full_scale_does_not_wrap_when_resampled(tmp_path: Path) -> None:
    square = np.where(np.arange(8000) % 40 < 20, 32767, -32768).astype(np.int16)
    result = audio.read(written(tmp_path / "a.wav", square, 8000), 0.0, 1.0).astype(int)
    middle = result[20:40:2][3:7]
    assert np.abs(np.diff(result)).max() < 65536
    assert (middle > 25000).all() or (middle < -25000).all()


@pytest.mark.parametrize("content", [None, b"", b"RIFF no audio"])
def test_unreadable_files_are_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "broken.flac"
    if content is not None:
        path.write_bytes(content)
    for call in (lambda: audio.duration(path), lambda: audio.read(path, 0.0, 1.0)):
        with pytest.raises(UsageError, match=r"cannot read audio .*broken.flac"):
            call()


def test_a_wav_with_less_than_its_header_promises_is_truncated(tmp_path: Path) -> None:
    """libsndfile shortens the length by itself, and the rest would be taken for the whole."""
    path = written(tmp_path / "a.wav", noise(5000))
    whole = path.read_bytes()
    path.write_bytes(whole[:6000])
    with pytest.raises(AudioError, match=f"truncated audio: {6000 - 44} of 10000 bytes"):
        audio.header(path)
    ten_hours = (10 * 3600 * 16000 * 2).to_bytes(4, "little")
    path.write_bytes(whole[:40] + ten_hours + whole[44:])
    with pytest.raises(AudioError, match="truncated audio"):
        audio.header(path)
    path.write_bytes(whole[:40] + b"\xff" * 4 + whole[44:])  # as a stream is written, whose end nobody knew
    assert audio.header(path) == (5000, 16000)


def test_a_streamed_flac_has_no_length(tmp_path: Path) -> None:
    """Its header says 0 samples, in the 36 bits from byte 21 and a half on (RFC 9639, section 8.2)."""
    path = written(tmp_path / "a.flac", noise(5000))
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    path.write_bytes(content)
    with pytest.raises(AudioError, match="unknown length"):
        audio.header(path)


@pytest.mark.parametrize(
    ("rate", "channels", "words"),
    [(3999, 1, "3999 Hz"), (1_000_000, 1, "Hz"), (16000, 65, "65 ch")],
)
def test_rates_and_channels_are_known_before_anything_is_decoded(
    rate: int, channels: int, words: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.wav", noise(100, channels), rate)
    with pytest.raises(AudioError, match=f"unreadable audio: .*{words}"):
        audio.header(path)


def test_names_that_are_no_text_and_pipes_are_faults_of_a_file(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.wav")
    assert audio.header(written(tmp_path / "a.wav", noise(100)).rename(tmp_path / name)) == (100, 16000)
    os.mkfifo(tmp_path / "pipe.wav")
    for path in (tmp_path / "pipe.wav", Path("a\0b.wav"), Path("\ud800.wav"), Path("x" * 5000)):
        with pytest.raises(AudioError):
            audio.header(path)
