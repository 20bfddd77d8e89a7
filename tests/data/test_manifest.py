"""Manifests, and indexes of splits."""

import gzip
import json
import os
import shutil
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import soundfile

from asr_ablations.components.data.librispeech import LibriSpeech
from asr_ablations.config.build import build
from asr_ablations.data import audio
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.corpus import Corpus, name_paths, text_of
from asr_ablations.data.description import content_hash, describe_set
from asr_ablations.data.utterance_selection import Screened, judge, select
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.errors import UsageError
from tests.helpers.layouts import write_split
from tests.helpers.support import component, compose, tiny_overrides


def write_manifest(path: Path, lines: Sequence[dict[str, Any] | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines), encoding="utf-8")
    return path


def manifest(root: Path, **options: Any) -> Any:
    return component("data", "manifest", root=str(root), **options)


def kaldi(root: Path, **options: Any) -> Any:
    return component("data", "kaldi", root=str(root), **options)


def tone(path: Path, seconds: float = 1.0, silent: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, (not silent) * 0.3 * np.sin(np.arange(round(16000 * seconds)) / 7), 16000)
    return path


def test_segments_lie_within_their_recording(tmp_path: Path) -> None:
    """The times of both kinds of list, in seconds; -1 is Kaldi's end of a recording."""
    tone(tmp_path / "clips" / "a.wav", 3.0)
    clip = {"audio_filepath": "clips/a.wav", "speaker": "a"}
    first = {**clip, "text": "one", "offset": 0.5, "duration": 1.25, "id": "a-1"}
    write_manifest(tmp_path / "train.jsonl", [first, {**clip, "text": "two", "offset": 2.0, "id": "a-2"}])
    folder = tmp_path / "data" / "train"
    folder.mkdir(parents=True)
    (folder / "wav.scp").write_text("a clips/a.wav\n")
    (folder / "segments").write_text("a-1 a 0.5 1.75\na-2 a 2.0 -1\n")
    (folder / "text").write_text("a-1 ONE\na-2 TWO\n")
    (folder / "utt2spk").write_text("a-1 a\na-2 a\n")
    utterances = manifest(tmp_path).read("train")
    assert [(u.id, u.speaker, u.offset, u.duration, u.text) for u in utterances] == [
        ("a-1", "a", 0.5, 1.25, "one"),
        ("a-2", "a", 2.0, 1.0, "two"),
    ]
    assert kaldi(tmp_path).read("train") == utterances


def test_ids_and_speakers_where_none_are_given(tmp_path: Path) -> None:
    for name in ("x/1.wav", "y/1.wav", "2.wav"):
        tone(tmp_path / name)
    lines = [{"audio_filepath": name, "text": "a"} for name in ("x/1.wav", "y/1.wav", "2.wav")]
    lines += [{"audio_filepath": "2.wav", "text": "a", "offset": 0.25, "duration": 0.5}]
    write_manifest(tmp_path / "train.jsonl", lines)
    utterances = manifest(tmp_path).read("train")
    assert [u.id for u in utterances] == ["x-1", "y-1", "2", "2-0000250"]
    assert {u.speaker for u in utterances} == {""}
    assert [u.unit for u in utterances] == ["file x-1", "file y-1", "file 2", "file 2"]
    write_manifest(tmp_path / "train.jsonl", lines[:3])
    assert [u.unit for u in manifest(tmp_path).read("train")] == ["utterance x-1", "utterance y-1", "utterance 2"]


def test_unknown_speakers_are_said_once_and_can_be_found_in_the_ids(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The same of a manifest and of a Kaldi directory; data.json counts no speakers that nobody knows."""

    def selected(corpus: Any) -> dict[str, Screened]:
        alphabet = Letters.with_separation(" a", None)
        return select(judge(corpus, alphabet), corpus, alphabet, lambda samples: samples // 160)

    ids = [f"{speaker}-{number}" for speaker in ("anna", "bob") for number in range(3)]
    for id_ in ids:
        tone(tmp_path / f"{id_}.wav")
    for name in ("train", "dev", "test"):
        write_manifest(tmp_path / f"{name}.jsonl", [{"audio_filepath": f"{id_}.wav", "text": "a"} for id_ in ids])
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        (folder / "wav.scp").write_text("".join(f"{id_} {id_}.wav\n" for id_ in ids))
        (folder / "text").write_text("".join(f"{id_} A\n" for id_ in ids))
    for make in (manifest, kaldi):
        caplog.clear()
        described = describe_set(selected(make(tmp_path))["test"])
        assert (described["speakers"], described["units"]) == (0, 6)
        (warning,) = [record.getMessage() for record in caplog.records if "speakers of" in record.getMessage()]
        assert warning.startswith("speakers of test are unknown: verdicts treat each utterance or recording")
        caplog.clear()
        named = make(tmp_path, speaker_of="^([^-]+)-")
        described = describe_set(selected(named)["test"])
        assert (described["speakers"], described["units"]) == (2, 2)
        assert {u.speaker for u in named.read("test")} == {"anna", "bob"}
        assert not [record for record in caplog.records if "speakers of" in record.getMessage()]
    with pytest.raises(UsageError, match=r"data.speaker_of=\^\(c\): finds no speaker in 6 ids \(anna-0, anna-1"):
        manifest(tmp_path, speaker_of="^(c)").read("test")


def test_a_unit_above_speakers_is_read_written_and_part_of_the_content(tmp_path: Path) -> None:
    tone(tmp_path / "1.wav")
    line = {"audio_filepath": "1.wav", "text": "a", "speaker": "anna"}
    write_manifest(tmp_path / "train.jsonl", [line | {"unit": "session 3"}])
    (utterance,) = manifest(tmp_path).read("train")
    assert (utterance.speaker, utterance.unit) == ("anna", "session 3")
    described = content_hash([utterance])
    assert described != content_hash([replace(utterance, unit="")]) != content_hash([replace(utterance, unit="anna")])
    (tmp_path / "train.jsonl").unlink()
    write_split(manifest(tmp_path), "train", [utterance])
    assert [u.unit for u in manifest(tmp_path).read("train")] == ["session 3"]


def test_a_wrong_line_is_named_by_its_number_and_a_separator_of_lines_within_a_text_ends_none(tmp_path: Path) -> None:
    tone(tmp_path / "a.wav")
    wrong: list[tuple[dict[str, Any] | str, str]] = [
        ("[1, 2]", "not JSON: expected an object"), ({"text": "a"}, "no audio_filepath"),
        ({"audio_filepath": "a.wav", "text": "a", "offset": -1}, "wrong offset"),
        ('{"audio_filepath": "a.wav", "text": "a", "duration": NaN}', "wrong duration"),
        ('{"audio_filepath": "a.wav", "text": "a", "offset": 1' + "0" * 400 + "}", "wrong offset"),
        ("[" * 100_000, "not JSON"), (r'{"audio_filepath": "a.wav", "text": "a", "id": "\ud800"}', "wrong id"),
    ]  # fmt: skip
    good = {"audio_filepath": "a.wav", "text": "a"}
    write_manifest(tmp_path / "train.jsonl", [good, "", *(line for line, _ in wrong)])
    sound, *bad = manifest(tmp_path).read("train")
    assert sound.fault == ""
    for number, (utterance, (_, fault)) in enumerate(zip(bad, wrong, strict=True), start=3):
        assert utterance.id == f"train.jsonl:{number}"
        assert utterance.fault.startswith(fault)
        assert "\n" not in utterance.fault
    tone(tmp_path / "a.wav")
    lines = [{"audio_filepath": "a.wav", "text": f"a{separator}b"} for separator in "\u2028\u2029\x85\x0b\x0c"]
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    (tmp_path / "train.jsonl").write_text(text.replace("\\u000b", "\x0b").replace("\\f", "\x0c"), encoding="utf-8")
    assert [u.fault.partition(":")[0] for u in manifest(tmp_path).read("train")] == ["", "", "", "not JSON", "not JSON"]


def test_times_are_those_of_the_file(tmp_path: Path) -> None:
    """1.04 s of a file of 1 s is a rounded duration and is cut."""
    tone(tmp_path / "a.wav")
    times = [(0.5, 0.6), (1.5, None), (0.2, 0.0), (0.0, 1.04)]
    lines = [{"audio_filepath": "a.wav", "text": "a", "id": str(at), "offset": at, "duration": x} for at, x in times]
    write_manifest(tmp_path / "train.jsonl", lines)
    utterances = manifest(tmp_path).read("train")
    faults = ["beyond the end", "zero-length audio", "zero-length audio", ""]
    assert [u.fault.partition(":")[0] for u in utterances] == faults
    assert utterances[3].duration == 1.0


def test_wrong_kaldi_tables_are_named_and_no_command_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "train"
    tone(tmp_path / "a.wav")
    folder.mkdir(parents=True)
    for name, content, message in (
        ("wav.scp", f"a touch {tmp_path / 'run'} |\n", r"recording a is the command .*refused"),
        ("text", "a ONE\na TWO\n", "text:2: duplicate id a"),
        ("segments", "a-1 a 0.5\n", "segments:1: .*expected utterance, recording, start, end"),
        ("wav.scp", "", "no utterances"),
    ):
        for file, lines in {"wav.scp": "a a.wav\n", "text": "a ONE\n", name: content}.items():
            (folder / file).write_text(lines)
        with pytest.raises(UsageError, match=message):
            kaldi(tmp_path).read("train")
        (folder / "segments").unlink(missing_ok=True)
    assert not (tmp_path / "run").exists()
    (folder / "wav.scp").write_text("a a.wav\n")
    (folder / "segments").write_text("a-1 a 0 1\nb-1 b 0 1\n")
    (folder / "text").write_text("a-1 ONE\nc-1 THREE\n")
    faults = {u.id: u.fault for u in kaldi(tmp_path).read("train")}
    assert faults["a-1"] == ""
    assert faults["b-1"].startswith("missing file: no recording b")
    assert faults["c-1"].startswith("missing file: a transcript without audio")


def test_sets_are_called_by_as_little_of_their_paths_as_tells_them_apart() -> None:
    here = Path("/here")
    assert name_paths(here, ["a/train.jsonl", "dev.json"]) == {"train": "a/train.jsonl", "dev": "dev.json"}
    assert name_paths(here, ["/x/one/m.jsonl", "/x/two/m.jsonl"]) == {
        "one-m": "/x/one/m.jsonl",
        "two-m": "/x/two/m.jsonl",
    }
    assert name_paths(here, ["m.jsonl", "m.jsonl"]) == {"m": "m.jsonl"}
    assert name_paths(here, ["../there/m.jsonl", "m.jsonl"]) == {"there-m": "../there/m.jsonl", "here-m": "m.jsonl"}
    assert name_paths(here, ["m.json", "m.jsonl"]) == {"m.json": "m.json", "m.jsonl": "m.jsonl"}
    assert list(name_paths(here, ["data/train.clean", "data/train.other"])) == ["train.clean", "train.other"]


Form = Literal["NFC", "NFD"]


@pytest.mark.parametrize(("on_disk", "written"), [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("kind", ["manifest", "named", "kaldi", "segments", "librispeech", "mls"])
def test_texts_ids_and_speakers_are_composed_and_files_found(
    kind: str, on_disk: Form, written: Form, tmp_path: Path
) -> None:
    """A corpus from a Mac, whose names of files are decomposed, or whose texts are."""
    read = {
        "librispeech": "dev/łódź/1/ż-1.flac",
        "mls": "dev/audio/ż/1/ż_1_1.flac",
    }.get(kind, "dev/ż.wav")
    path = tone(tmp_path / unicodedata.normalize(on_disk, read))
    files = {
        "manifest": {"dev.jsonl": '{"audio_filepath": "dev/ż.wav", "text": "ŻÓŁĆ’", "id": "ż", "speaker": "łódź"}'},
        "named": {"dev.jsonl": '{"audio_filepath": "dev/ż.wav", "text": "ŻÓŁĆ’", "speaker": "łódź"}'},
        "kaldi": {"dev/wav.scp": "ż dev/ż.wav", "dev/text": "ż ŻÓŁĆ’", "dev/utt2spk": "ż łódź"},
        "segments": {
            "dev/wav.scp": "ó dev/ż.wav",
            "dev/text": "ż ŻÓŁĆ’",
            "dev/utt2spk": "ż łódź",
            "dev/segments": "ż ó 0 0.5",
        },
        "librispeech": {f"{Path(read).parent}/łódź-1.trans.txt": "ż-1 ŻÓŁĆ’"},
        "mls": {"dev/transcripts.txt": "ż_1_1\tŻÓŁĆ’"},
    }[kind]
    for name, content in files.items():
        file = tmp_path / (unicodedata.normalize(on_disk, name) if kind == "librispeech" else name)
        file.write_text(unicodedata.normalize(written, f"\ufeff{content}\n"), encoding="utf-8")
    name = {"named": "manifest", "segments": "kaldi"}.get(kind, kind)
    validation = {"manifest": "dev.jsonl"}.get(name, "dev")
    corpus = component("data", name, root=str(tmp_path), train=validation, validation=validation, test=validation)
    (utterance,) = corpus.read("dev")
    expected = {"librispeech": ("ż-1", "łódź"), "mls": ("ż_1_1", "ż")}.get(kind, ("ż", "łódź"))
    assert (utterance.id, utterance.speaker) == expected
    assert (utterance.text, utterance.fault, utterance.audio) == ("żółć'", "", path)


def test_the_language_of_the_texts_decides_their_case(tmp_path: Path) -> None:
    write_manifest(tmp_path / "train.jsonl", [{"audio_filepath": "a.wav", "text": "IŞIK İZ"}])
    for language, text in (("tr", "ışık iz"), ("en", "işik iz")):
        corpus = manifest(tmp_path, language=language)
        assert [corpus.normalised(utterance.text) for utterance in corpus.find("train")] == [text]


def test_a_manifest_in_another_encoding_is_one_error(tmp_path: Path) -> None:
    for content, message in (
        ("ż".encode("utf-16"), r"train\.json: it is in UTF-16, not UTF-8; iconv -f UTF-16 -t UTF-8 train\.json"),
        (b"{}\n\xbf\n", r"train\.json:2: byte 1 is not UTF-8; its encoding is not known \(CP1250"),
        (gzip.compress(b"{}", mtime=0), r"train\.json: it is compressed by gzip"),
    ):
        (tmp_path / "train.json").write_bytes(content)
        with pytest.raises(UsageError, match=message):
            text_of(tmp_path / "train.json")


@pytest.fixture
def indexed_root(tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of its own, and an index of its own."""
    shutil.copytree(tiny_corpus, tmp_path / "corpus")
    monkeypatch.setenv("ASR_ABLATIONS_INDEX", str(tmp_path / "memory"))
    return tmp_path / "corpus"


def read(indexed_root: Path, thorough: bool = False) -> Utterances:
    corpus: Corpus = build(compose(*tiny_overrides(indexed_root)).data)
    corpus.thorough = thorough
    return corpus.read("train")


class Work:
    """What reading does: texts and folders read, audio files read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts = self.files = 0
        find, header = LibriSpeech.find, audio.header

        def counted_find(corpus: LibriSpeech, split: str) -> list[Utterance]:
            self.texts += 1
            return find(corpus, split)

        def counted_header(path: Path) -> tuple[int, int]:
            self.files += 1
            return header(path)

        counted_find.options = LibriSpeech.find.options  # type: ignore[attr-defined]
        monkeypatch.setattr(LibriSpeech.__mro__[1], "find", counted_find)
        monkeypatch.setattr(audio, "header", counted_header)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda audio, text: os.utime(audio, ns=(1, 1)), True),
        (lambda audio, text: audio.unlink(), False),
        (lambda audio, text: shutil.copy(audio, audio.with_stem("new")), False),
        (lambda audio, text: text.write_text(f"{text.read_text()}\n"), True),
        (lambda audio, text: text.unlink(), False),
        (lambda audio, text: (text.parents[2] / "99").mkdir(), True),  # another speaker
    ],
)
def test_a_second_start_reads_nothing_unless_something_changed(
    indexed_root: Path, work: Work, change: Callable[[Path, Path], Any], same: bool
) -> None:
    before = read(indexed_root)
    assert read(indexed_root) == before
    assert (work.texts, work.files) == (1, len(before))
    change(*(sorted((indexed_root / "train").rglob(pattern))[0] for pattern in ("*.flac", "*.trans.txt")))
    assert (read(indexed_root) == before) == same
    assert work.texts == 2


@pytest.mark.parametrize("damage", ["flipped", "short"])
def test_a_damaged_index_is_made_again(indexed_root: Path, work: Work, damage: str) -> None:
    before = read(indexed_root)
    (path,) = indexed_root.parent.glob("memory/*/*.npz")
    content = bytearray(path.read_bytes())
    content[content.index(bytes(str(before[0].audio), "utf-8"))] ^= 1
    path.write_bytes(content if damage == "flipped" else content[: len(content) // 2])
    assert read(indexed_root) == before
    assert work.texts == 2
    assert read(indexed_root) == before
    assert work.texts == 2


def test_a_class_that_may_read_more_than_is_noted_is_read_always(indexed_root: Path, work: Work) -> None:
    class Own(LibriSpeech):
        def find(self, split: str) -> list[Utterance]:
            return super().find(split)[:1]

    for _ in range(2):
        corpus: Corpus = build(compose(*tiny_overrides(indexed_root)).data)
        corpus.__class__ = Own
        assert len(corpus.read("train")) == 1
    assert (work.texts, work.files) == (2, 1), "what is known of its audio is kept"


def test_what_another_split_knows_of_an_older_state_of_a_file_is_not_believed(tmp_path: Path) -> None:
    """train was decoded before its file was silenced, and test after its file was silenced and before it was mended."""
    path = tone(tmp_path / "a.wav")
    for name in ("train", "test"):
        write_manifest(tmp_path / f"{name}.jsonl", [{"audio_filepath": "a.wav", "text": "a"}])

    def faults(split: str) -> list[str]:
        corpus = manifest(tmp_path)
        corpus.thorough = True
        return [u.fault.partition(":")[0] for u in corpus.read(split)]

    assert faults("train") == [""]
    tone(path, silent=True)
    assert faults("test") == ["silent audio"]
    assert faults("train") == ["silent audio"]
    tone(path)
    assert faults("train") == [""]
    assert faults("test") == [""]
