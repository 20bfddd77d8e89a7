"""Audio files of odd formats and several channels: the right samples, and what is said of them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr_ablations.data import audio
from asr_ablations.data.audio import AudioError
from asr_ablations.data.description import content_hash
from asr_ablations.data.recording_cache import cache_key
from tests.helpers.support import component

TIMES = np.arange(32000) / 16000
LEFT, RIGHT = 0.5 * np.sin(2 * np.pi * 300 * TIMES), 0.2 * np.sin(2 * np.pi * 500 * TIMES)
INT16 = 32768


@pytest.mark.parametrize(
    ("name", "form", "subtype", "tolerance"),
    [("a.WAV", "NIST", "PCM_16", 1), ("a.wav", "WAV", "GSM610", 3000), ("a.wav", "WAV", "DOUBLE", 1)],
)  # fmt: skip
@pytest.mark.parametrize("begin", [0.0, 1.25])
def test_a_part_of_any_format_is_what_was_written(
    tmp_path: Path, name: str, form: str, subtype: str, tolerance: int, begin: float
) -> None:
    """GSM 6.10 and G.721 cannot seek; TIMIT and other corpora have SPHERE in files named .WAV."""
    soundfile.write(tmp_path / name, LEFT, 16000, format=form, subtype=subtype)
    samples, rate = audio.header(tmp_path / name)
    assert (rate, samples) == (16000, pytest.approx(32000, abs=320))
    part = audio.read(tmp_path / name, begin, 0.5).astype(float)
    first = round(16000 * begin)
    assert np.abs(part - INT16 * LEFT[first : first + 8000])[320:].max() <= tolerance


@pytest.mark.parametrize(("share", "refused"), [(0.0, False), (0.009, False), (0.011, True), (1.0, True)])
def test_floating_point_audio_in_other_units_is_refused(tmp_path: Path, share: float, refused: bool) -> None:
    values = np.where(np.arange(32000) < 32000 * share, 3400.0, LEFT)
    soundfile.write(tmp_path / "a.wav", values, 16000, subtype="FLOAT")
    if not refused:
        assert audio.read(tmp_path / "a.wav", 0.0, 2.0).max() == (32767 if share else round(INT16 * 0.5))
        return
    with pytest.raises(AudioError, match=rf"beyond full scale: peak 3400\.0, {100 * share:.1f} % of samples"):
        audio.read(tmp_path / "a.wav", 0.0, 2.0)


def test_channels_are_averaged_unless_one_is_named(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.stack([LEFT, RIGHT], axis=1), 16000)
    for channel, expected in {audio.AVERAGED: (LEFT + RIGHT) / 2, 0: LEFT, 1: RIGHT}.items():
        assert np.abs(audio.read(tmp_path / "a.wav", 0.5, 1.0, channel) - INT16 * expected[8000:24000]).max() <= 2
    with pytest.raises(AudioError, match="wrong channel: 2 of 2; the first channel is 0"):
        audio.read(tmp_path / "a.wav", 0.0, 1.0, 2)


def test_channels_that_cancel_out_are_not_called_silence(tmp_path: Path) -> None:
    """A lossy format leaves something of them."""
    for name, options in {"a.wav": {}, "a.ogg": {"format": "OGG", "subtype": "VORBIS"}}.items():
        soundfile.write(tmp_path / name, np.stack([LEFT, -LEFT], axis=1), 16000, **options)
        with pytest.raises(AudioError, match=r"channels cancel out: .*in a manifest, `channel` selects one"):
            audio.read(tmp_path / name, 0.0, 2.0)
        assert np.std(audio.read(tmp_path / name, 0.0, 2.0, 1)) == pytest.approx(INT16 * np.std(LEFT), rel=0.01)


def test_a_channel_is_read_from_manifests_and_segments_and_is_a_part_of_the_content(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "call.wav", np.stack([LEFT, RIGHT], axis=1), 16000)
    lines = [{"audio_filepath": "call.wav", "text": "a", "speaker": f"s{x}", "channel": x} for x in (0, 1)]
    (tmp_path / "train.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    folder = tmp_path / "data" / "train"
    folder.mkdir(parents=True)
    (folder / "wav.scp").write_text("call call.wav\n")
    (folder / "segments").write_text("call-channel0 call 0 2 0\ncall-channel1 call 0 2 1\n")
    (folder / "text").write_text("call-channel0 A\ncall-channel1 A\n")
    (folder / "utt2spk").write_text("call-channel0 s0\ncall-channel1 s1\n")
    read = [component("data", name, root=str(tmp_path)).read("train") for name in ("manifest", "kaldi")]
    assert read[0] == read[1]
    first, second = read[0]
    assert [(u.id, u.channel) for u in (first, second)] == [("call-channel0", 0), ("call-channel1", 1)]
    store = component("cache", "none").open("train", read[0], 0)
    assert np.abs(store.read(second)[0] - INT16 * RIGHT).max() <= 1
    variants = [[replace(first, channel=channel)] for channel in (audio.AVERAGED, 0, 1)]
    assert len({content_hash(x) for x in variants}) == len({cache_key(x, "m") for x in variants}) == 3


def test_half_of_a_sphere_file_is_truncated(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", LEFT, 16000, format="NIST", subtype="PCM_16")
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes()[: 1024 + 32000])
    with pytest.raises(AudioError, match="truncated audio: 16000 of 32000 samples"):
        audio.header(tmp_path / "a.wav")
