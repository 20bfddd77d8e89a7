"""Audio files: the right samples, and every kind of bad input: named, reported, left out only on request."""

import itertools
import json
import logging
import operator
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.data import audio, index
from asr_ablations.data.alphabet import Letters, shortest_path, shortest_paths
from asr_ablations.data.audio import AudioError
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.data.description import content_hash
from asr_ablations.data.recording_cache import cache_key
from asr_ablations.data.utterance_selection import TOO_SHORT, judge
from asr_verdicts.errors import UsageError
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


def test_floating_point_audio_in_other_units_is_refused(tmp_path: Path) -> None:
    for share, refused in ((0.0, False), (0.009, False), (0.011, True), (1.0, True)):
        values = np.where(np.arange(32000) < 32000 * share, 3400.0, LEFT)
        soundfile.write(tmp_path / "a.wav", values, 16000, subtype="FLOAT")
        if refused:
            with pytest.raises(AudioError, match=rf"beyond full scale: peak 3400\.0, {100 * share:.1f} % of samples"):
                audio.read(tmp_path / "a.wav", 0.0, 2.0)
        else:
            assert audio.read(tmp_path / "a.wav", 0.0, 2.0).max() == (32767 if share else round(INT16 * 0.5))


def test_channels_are_averaged_unless_one_is_named_and_if_they_cancel_out_not_called_silence(tmp_path: Path) -> None:
    """A lossy format leaves something of channels that cancel out."""
    soundfile.write(tmp_path / "a.wav", np.stack([LEFT, RIGHT], axis=1), 16000)
    for channel, expected in {audio.AVERAGED: (LEFT + RIGHT) / 2, 0: LEFT, 1: RIGHT}.items():
        assert np.abs(audio.read(tmp_path / "a.wav", 0.5, 1.0, channel) - INT16 * expected[8000:24000]).max() <= 2
    with pytest.raises(AudioError, match="wrong channel: 2 of 2; the first channel is 0"):
        audio.read(tmp_path / "a.wav", 0.0, 1.0, 2)
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


def test_foreign_characters_are_found_and_not_encoded_and_no_alphabet_is_empty_or_doubled() -> None:
    for characters in ("aba", "", "  "):
        with pytest.raises(UsageError, match=f"{characters!r}: expected"):
            Letters(characters)
    assert Letters("ab").foreign("añ b3ñ") == [" ", "3", "ñ"]
    assert Letters("ab").foreign("") == Letters("ab").foreign("baab") == []
    with pytest.raises(KeyError, match="c"):
        Letters("ab").encode("abc")
    labels, counts = Letters("ab").encode_all(["ab", "", "b\U0001f600`c"])
    assert labels.tolist() == [1, 2, 2, -1, -1, -1]
    assert counts.tolist() == [2, 0, 4]


@pytest.mark.parametrize("separation", [None, "_"])
def test_many_texts_are_encoded_as_each_alone(separation: str | None) -> None:
    alphabet = Letters.with_separation("abż ", separation)
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("abż", repeat=n)]
    labels, counts = alphabet.encode_all(texts)
    expected = [alphabet.encode(text) for text in texts]
    assert [part.tolist() for part in np.split(labels, counts.cumsum())[:-1]] == expected
    least = [len(one) + sum(map(operator.eq, one, one[1:])) for one in expected]
    assert shortest_paths(labels, counts).tolist() == [shortest_path(one) for one in expected] == least
    assert [array.size for array in alphabet.encode_all([])] == [0, 0]


def written(path: Path, samples: np.ndarray, rate: int = 16000) -> Path:
    soundfile.write(path, samples, rate, subtype="PCM_16")
    return path


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-20000, 20000, size=shape).astype(np.int16)


def test_samples_come_as_they_were_written_and_full_scale_does_not_wrap_when_resampled(tmp_path: Path) -> None:
    samples = noise(5000)
    path = written(tmp_path / "a.flac", samples)
    assert audio.duration(path) == 5000 / 16000
    result = audio.read(path, 0.0, 5000 / 16000)
    assert result.dtype == np.int16
    np.testing.assert_array_equal(result, samples)
    np.testing.assert_array_equal(audio.read(path, 1000 / 16000, 250 / 16000), samples[1000:1250])
    square = np.where(np.arange(8000) % 40 < 20, 32767, -32768).astype(np.int16)
    result = audio.read(written(tmp_path / "a.wav", square, 8000), 0.0, 1.0).astype(int)
    middle = result[20:40:2][3:7]
    assert np.abs(np.diff(result)).max() < 65536
    assert (middle > 25000).all() or (middle < -25000).all()


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.flac"
    for content in (None, b"", b"RIFF no audio"):
        if content is not None:
            path.write_bytes(content)
        for call in (lambda: audio.duration(path), lambda: audio.read(path, 0.0, 1.0)):
            with pytest.raises(UsageError, match=r"cannot read audio .*broken.flac"):
                call()


def test_files_with_less_than_their_header_promises_or_of_no_length_are_refused(tmp_path: Path) -> None:
    """libsndfile shortens a length by itself, and the rest would be taken for the whole."""
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
    path = written(tmp_path / "a.flac", noise(5000))
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    path.write_bytes(content)
    with pytest.raises(AudioError, match="unknown length"):
        audio.header(path)
    soundfile.write(tmp_path / "a.wav", LEFT, 16000, format="NIST", subtype="PCM_16")
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes()[: 1024 + 32000])
    with pytest.raises(AudioError, match="truncated audio: 16000 of 32000 samples"):
        audio.header(tmp_path / "a.wav")


def test_rates_and_channels_are_known_before_anything_is_decoded(tmp_path: Path) -> None:
    for rate, channels, words in ((3999, 1, "3999 Hz"), (1_000_000, 1, "Hz"), (16000, 65, "65 ch")):
        with pytest.raises(AudioError, match=f"unreadable audio: .*{words}"):
            audio.header(written(tmp_path / "a.wav", noise(100, channels), rate))


def test_names_that_are_no_text_and_pipes_are_faults_of_a_file(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.wav")
    assert audio.header(written(tmp_path / "a.wav", noise(100)).rename(tmp_path / name)) == (100, 16000)
    os.mkfifo(tmp_path / "pipe.wav")
    for path in (tmp_path / "pipe.wav", Path("a\0b.wav"), Path("\ud800.wav"), Path("x" * 5000)):
        with pytest.raises(AudioError):
            audio.header(path)


LETTERS = Letters("abcdefgh ")
SOUND = 0.3 * np.sin(np.arange(16000) / 7)


def truncated(path: Path) -> None:
    """The header still promises a second."""
    soundfile.write(path, np.random.default_rng(0).normal(size=16000) / 10, 16000, format="FLAC")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def sound(values: np.ndarray, **options: Any) -> Callable[[Path], Any]:
    return lambda path: soundfile.write(path, values, 16000, **options)


BAD_FILES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "missing file": ("bad.flac", lambda path: None),
    "zero-length file": ("bad.flac", lambda path: path.write_bytes(b"")),
    "zero-length audio": ("bad.wav", sound(np.zeros(0))),
    "unreadable audio": ("bad.flac", lambda path: path.write_bytes(b"no audio at all")),
    "wrong extension": ("bad.flac", sound(SOUND, format="WAV")),
    "truncated audio": ("bad.flac", truncated),
    "not a number": ("bad.wav", sound(np.where(np.arange(16000) == 900, np.nan, SOUND), subtype="FLOAT")),
    "beyond full scale": ("bad.wav", sound(32768 * SOUND, subtype="FLOAT")),  # numbers of 16 bits
    "channels cancel out": ("bad.flac", sound(np.stack([SOUND, -SOUND], axis=1))),
    "silent audio": ("bad.flac", sound(0 * SOUND)),
}
BY_HEADER = ("missing file", "zero-length file", "zero-length audio", "unreadable audio", "wrong extension")
BAD_TEXTS = {
    "empty transcript": "",
    "characters outside the alphabet": "añ",
    "transcript longer than frames": "ab" * 60,
}


def line(name: str, text: str = "a bad cab", **more: Any) -> dict[str, Any]:
    return {"audio_filepath": name, "text": text, "id": Path(name).stem, **more}


def write(folder: Path, split: str, *lines: dict[str, Any]) -> None:
    (folder / f"{split}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A manifest corpus with one sound utterance in each set."""
    soundfile.write(tmp_path / "good.flac", SOUND, 16000)
    for split in ("train", "dev", "test"):
        write(tmp_path, split, line("good.flac"))
    return tmp_path


def corpus(folder: Path, **options: Any) -> Any:
    return component("data", "manifest", root=str(folder), **options)


def data(folder: Path, frames: int = 50, **options: Any) -> SpeechData:
    """With a model of `frames` output frames a second."""
    order = component("order", "shuffled")
    model = lambda samples: samples * frames // 16000  # noqa: E731
    rest = {"cache": component("cache", "none"), "augment": component("augment", "none")}
    speech = SpeechData(
        corpus(folder, **options), LETTERS, order, model, batch_count=2, batch_seconds=None, seed=0, augment_seed=0,
        workers=0, **rest,
    )  # fmt: skip
    speech.setup()
    return speech


def faults(folder: Path, thorough: bool, name: str = "train") -> dict[str, str]:
    manifest = corpus(folder)
    manifest.thorough = thorough
    return {u.id: u.fault.partition(":")[0] for u in judge(manifest, LETTERS)[name] if u.fault}


def test_a_bad_text_and_a_duplicate_id_are_found_in_every_set(folder: Path) -> None:
    lines = [line("good.flac"), *(line("good.flac", text, id=reason) for reason, text in BAD_TEXTS.items())]
    lines += [line("good.flac", id="twice"), line("good.flac", id="twice", offset=0.1)]
    bad = {**{reason: reason for reason in BAD_TEXTS}, "twice": "duplicate id"}
    for split, allowed in (
        ("train", set()),
        ("test", {"empty transcript"}),
    ):  # what is recognised in it is an insertion
        write(folder, split, *lines)
        assert faults(folder, thorough=False, name=split) == {id_: x for id_, x in bad.items() if id_ not in allowed}


def all_bad(folder: Path) -> dict[str, str]:
    """Every kind of bad file and text in the training set; reasons by id."""
    lines, expected = [line("good.flac")], {}
    for reason, (name, make) in BAD_FILES.items():
        path = folder / name.replace("bad", reason.replace(" ", "-"))
        make(path)
        lines.append(line(path.name))
        expected[path.stem] = reason
    for reason, text in BAD_TEXTS.items():
        lines.append(line("good.flac", text, id=reason))
        expected[reason] = reason
    write(folder, "train", *lines)
    return expected


def test_a_bad_file_is_found_at_the_latest_when_it_is_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was decoded is not looked at again, unless its file has changed since."""
    expected = all_bad(folder)
    early = {id_: reason for id_, reason in expected.items() if reason in (*BY_HEADER, *BAD_TEXTS)}
    assert faults(folder, thorough=False) == early
    assert faults(folder, thorough=True) == expected
    assert faults(folder, thorough=False) == expected, "the result of decoding is known to later runs"
    with monkeypatch.context() as patched:
        patched.setattr(index, "_find_fault", lambda *_: pytest.fail("a file is looked at again"))
        assert faults(folder, thorough=True) == expected
    soundfile.write(folder / "good.flac", np.zeros(17000), 16000)
    assert faults(folder, thorough=True)["good"] == "silent audio"


def test_a_bad_utterance_stops_a_run_by_its_id_and_nothing_left_is_an_error(folder: Path) -> None:
    (folder / "bad.flac").write_bytes(b"")
    write(folder, "dev", line("good.flac"), line("bad.flac"), line("none.flac"))
    with pytest.raises(
        UsageError,
        match=r"^bad: zero-length file: .*bad\.flac.*; 1 of 3 utterances of dev: missing file .*data\.on_bad=skip",
    ):
        data(folder)
    write(folder, "test", line("none.flac"))
    with pytest.raises(UsageError, match="no utterance of test is left"):
        data(folder, on_bad="skip")


def test_skipped_utterances_are_reported_and_listed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    expected = all_bad(folder)
    with caplog.at_level(logging.WARNING):
        speech = data(folder, on_bad="skip")
    assert [u.id for u in speech.sets["train"].utterances] == ["good"]
    description = speech.describe()["sets"]["train"]
    assert description["utterances"] == 1
    assert {id_: reason for reason, ids in description["left_out"].items() for id_ in ids} == expected
    assert speech.left_out == sorted(expected)
    for reason in expected.values():
        assert f"1 of {1 + len(expected)} utterances of train are left out, {reason}: " in caplog.text


def test_a_longest_duration_of_what_is_evaluated_leaves_training_as_it_is(folder: Path) -> None:
    """Of validation and test sets, as in Baunsgaard2020 §4.3 together with max_seconds."""
    soundfile.write(folder / "long.flac", np.tile(SOUND, 3), 16000)
    for split in ("train", "dev", "test"):
        write(folder, split, line("good.flac"), line("long.flac"))
    speech = data(folder, max_evaluated_seconds=2.5)
    sets = speech.describe()["sets"]
    assert [sets[name]["utterances"] for name in ("train", "dev", "test")] == [2, 1, 1]
    for name in ("dev", "test"):
        assert sets[name]["left_out"] == {"longer than data.max_evaluated_seconds": ["long"]}
    assert (sets["train"]["left_out"], speech.left_out) == ({}, [])
    both = data(folder, max_seconds=2.5, max_evaluated_seconds=2.5).describe()["sets"]
    assert [both[name]["utterances"] for name in ("train", "dev", "test")] == [1, 1, 1]


def test_what_the_model_cannot_hold_is_left_out_of_training_and_named_elsewhere(folder: Path) -> None:
    """30 labels in a second: too many for 20 output frames, not for the 100 of the features."""
    text = "ab" * 15
    for split in ("train", "dev", "test"):
        write(folder, split, line("good.flac"), line("good.flac", text, id="fast"))
    sets = data(folder, frames=20).describe()["sets"]
    assert sets["train"]["left_out"] == {"infeasible": ["fast"]}
    assert sets["dev"]["left_out"] == sets["test"]["left_out"] == {}
    assert [sets[name]["infeasible"] for name in ("train", "dev", "test")] == [["fast"]] * 3
    assert [sets[name]["utterances"] for name in ("train", "dev", "test")] == [1, 2, 2]


def test_what_has_no_frame_is_left_out_of_every_set_with_its_reason(folder: Path) -> None:
    soundfile.write(folder / "short.flac", SOUND[:7000], 16000)
    for split in ("train", "dev", "test"):
        write(folder, split, line("good.flac", "a"), line("short.flac", "a"))
    sets = data(folder, frames=2).describe()["sets"]
    assert sets["train"]["left_out"] == {"infeasible": ["short"]}
    for name in ("dev", "test"):
        assert sets[name]["left_out"] == {TOO_SHORT: ["short"]}
    write(folder, "dev", line("short.flac", "a"))
    with pytest.raises(UsageError, match=re.escape(f"no utterance of dev is left: {TOO_SHORT}")):
        data(folder, frames=2)


def test_formats_sound_alike(tmp_path: Path) -> None:
    """The same second of a tone: to the sample where nothing is lost, closely where the format loses."""
    for name, options, rate, loss in (
        ("a.wav", {"subtype": "PCM_24"}, 44100, 10), ("b.wav", {"subtype": "FLOAT"}, 16000, 1),
        ("c.ogg", {}, 44100, 500),
    ):  # fmt: skip
        path = tmp_path / name
        soundfile.write(path, 0.3 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate), rate, **options)
        assert audio.duration(path) == pytest.approx(1.0, abs=1e-6)
        samples = audio.read(path, 0.0, audio.duration(path))
        expected = 0.3 * 32768 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
        inner = slice(400, -400)  # resampling and lossy coding reach past the ends
        assert np.abs(samples[inner] - expected[inner]).max() <= loss


def test_a_changed_file_is_noticed_though_it_is_as_long(folder: Path) -> None:
    """Size, duration and text stay: the content decides."""
    path = folder / "good.wav"
    soundfile.write(path, SOUND, 16000)
    write(folder, "train", line("good.wav"))
    first = data(folder)
    assert data(folder).fingerprint == first.fingerprint
    size = path.stat().st_size
    soundfile.write(path, SOUND[::-1], 16000)
    changed = data(folder)
    assert path.stat().st_size == size
    assert changed.fingerprint != first.fingerprint
    before, after = (speech.describe()["sets"] for speech in (first, changed))
    assert before["train"]["sha256"] != after["train"]["sha256"]
    assert before["dev"] == after["dev"]


def test_the_fingerprint_is_of_contents_and_not_of_places(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for path in [*folder.glob("*.jsonl"), *folder.glob("*.flac")]:
        (elsewhere / path.name).write_bytes(path.read_bytes())
    assert data(elsewhere).fingerprint == data(folder).fingerprint
    write(elsewhere, "test", line("good.flac", "a bad bed"))
    assert data(elsewhere).fingerprint != data(folder).fingerprint


def test_without_an_index_everything_works(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_bytes(b"no folder")
    monkeypatch.setenv("ASR_ABLATIONS_INDEX", str(tmp_path / "file"))
    (utterance,) = corpus(folder).read("train")
    assert utterance.fault == ""
    assert "the index of train cannot be stored" in caplog.text
