"""Files, folders, lists, and recordings of any rate and length."""

import io
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.data.audio import duration, read
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import peak_memory
from asr_ablations.transcription import sources
from asr_ablations.transcription.sources import find_sources, read_whole

FORK = multiprocessing.get_context("fork")


def test_folders_are_searched_at_any_depth_and_each_file_is_taken_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("one.wav", "a/two.FLAC", "a/b/three.mp3", "a/notes.txt"):
        (tmp_path / name).touch()
    files = find_sources([str(tmp_path), str(tmp_path / "one.wav")])
    assert [str(source.name) for source in files] == ["a/b/three.mp3", "a/two.FLAC", "one.wav"]


def test_a_list_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one two.wav\n\nthree.flac\n"))
    assert [str(source.path) for source in find_sources(["-"])] == ["one two.wav", "three.flac"]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_an_empty_list_and_an_empty_folder_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(content))
    with pytest.raises(UsageError, match="no paths on standard input"):
        find_sources(["-"])
    with pytest.raises(UsageError, match="no audio in this folder"):
        find_sources([str(tmp_path)])


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100, 48000])
def test_blocks_join_without_a_seam(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rate: int) -> None:
    """Read in blocks of 2 s and all at once, stereo."""
    time = np.arange(round(5.37 * rate)) / rate
    tone = 0.4 * np.sin(2 * np.pi * 700 * time)
    soundfile.write(tmp_path / "a.wav", np.stack([tone, 0.5 * tone], axis=1), rate, subtype="PCM_16")
    monkeypatch.setattr(sources, "BLOCK", 2)
    samples = read_whole(tmp_path / "a.wav").astype(int)
    expected = read(tmp_path / "a.wav", 0, duration(tmp_path / "a.wav")).astype(int)
    assert len(samples) == len(expected)
    assert np.abs(samples - expected).max() <= 1
    assert (
        np.abs(samples - 0.75 * 0.4 * 32768 * np.sin(2 * np.pi * 700 * np.arange(len(samples)) / 16000))[800:-800].max()
        < 60
    )


def grown(path: Path, sizes: Any) -> None:
    before = peak_memory()
    sizes.put((len(read_whole(path)), peak_memory() - before))


def test_a_small_file_of_a_long_recording_takes_little_memory(tmp_path: Path) -> None:
    """Four minutes of silence at 48 kHz are 40 kB as FLAC. Resampled at once they took 460 MB."""
    with soundfile.SoundFile(tmp_path / "a.flac", "w", 48000, 1) as file:
        for _ in range(240):
            file.write(np.zeros(48000, dtype=np.int16))
    sizes = FORK.SimpleQueue()
    process = FORK.Process(target=grown, args=(tmp_path / "a.flac", sizes))
    process.start()
    samples, more = sizes.get()
    process.join()
    assert samples == 240 * 16000
    assert more < 200e6


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3", "aiff"])
def test_any_format_that_soundfile_writes(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"a.{ending}"
    soundfile.write(file, 0.3 * np.sin(np.arange(22050) / 10), 22050)
    assert [source.path for source in find_sources([str(tmp_path)])] == [file]
    assert abs(len(read_whole(file)) - 16000) < 2000  # mp3 pads


def test_a_name_that_no_file_can_have_is_left_to_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a\0b.wav\n" + "x" * 5000 + "\nc.wav\n"))
    assert [str(source.path) for source in find_sources(["-"])] == ["a\0b.wav", "x" * 5000, "c.wav"]


def test_a_closed_standard_input_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="standard input is closed"):
        find_sources(["-"])
