"""Every kind of bad input: detected, named by its utterance, reported with all others; left out only on request."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.data import audio, index
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.data.utterance_selection import TOO_SHORT, judge
from asr_verdicts.errors import UsageError
from tests.helpers.support import component

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
