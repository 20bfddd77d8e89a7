"""Corpora in layouts that other projects define; downloads from a real server: resumed, verified, unpacked."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.components.data.librispeech import list_folder
from asr_ablations.data import audio
from asr_ablations.data.download import download, unpack
from asr_ablations.data.utterances import Utterance
from asr_verdicts.errors import UsageError
from tests.helpers.archive_server import Server, archive, serving, sha256
from tests.helpers.layouts import ROLES, make_cut, make_table, save_to_disk, write_parquet, write_split
from tests.helpers.support import component, shared_data


def write_shards(root: Path, tones: Path) -> None:
    """Two files of each split in data/, as on the Hub."""
    for split in ROLES.values():
        utterances = list_folder(tones / split)
        half = len(utterances) // 2
        write_parquet(root / "data" / f"{split}-00000-of-00002.parquet", utterances[:half])
        write_parquet(root / "data" / f"{split}-00001-of-00002.parquet", utterances[half:])


def write_saved(root: Path, tones: Path) -> None:
    for split in ROLES.values():
        save_to_disk(root / split, list_folder(tones / split))
    (root / "dataset_dict.json").write_text(json.dumps({"splits": [*ROLES.values()]}))


TONE = 0.3 * np.sin(np.arange(16000) / 5)
HEADER = "client_id\tpath\tsentence\tup_votes"


def common_voice(root: Path, *lines: str, **options: Any) -> Any:
    (root / "clips").mkdir(exist_ok=True)
    soundfile.write(root / "clips" / "a.mp3", TONE, 16000)
    (root / "train.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return component("data", "common_voice", root=str(root), **options)


def read(corpus: Any, split: str = "train") -> list[Utterance]:
    return [*corpus.read(split)]


def test_common_voice_is_read_with_its_quotes_speakers_converted_clips_and_languages(tmp_path: Path) -> None:
    """A quote in a table is a character, also at the start of a field, and ends no line."""
    lines = [HEADER, 'abc\ta.mp3\t"One," he said\t2', 'abd\tb.mp3\t"Two\t2', "\ta.wav\tThree\t2"]
    corpus = common_voice(tmp_path, *lines, normalise="none")
    for clip in ("a.wav", "b.wav"):
        soundfile.write(tmp_path / "clips" / clip, TONE, 16000)
    utterances = read(corpus)
    assert [(u.id, u.speaker, u.audio.name, u.text, u.unit, u.fault) for u in utterances] == [
        ("a", "abc", "a.mp3", '"One," he said', "", ""),
        ("b", "abd", "b.wav", '"Two', "", ""),
        ("a", "", "a.wav", "Three", "utterance a", ""),
    ]
    assert [u.duration for u in utterances[1:]] == [1.0, 1.0]
    assert utterances[0].duration == pytest.approx(1.0, abs=0.1)  # an encoder may pad the end of an MP3
    for language in ("en", "pl"):
        (tmp_path / language).mkdir()
        common_voice(tmp_path / language, HEADER, f"abc\ta.mp3\t{language}\t2")
    both = component("data", "common_voice", root=str(tmp_path), train=["en/train.tsv", "pl/train.tsv"])
    assert both.train == ["en-train", "pl-train"]
    assert [u.text for u in both.read_set("train")] == ["en", "pl"]


def test_a_wrong_table_of_common_voice_is_one_line_and_a_wrong_line_a_fault(tmp_path: Path) -> None:
    for lines, message in (
        (
            ("client_id\tpath\ttext", "abc\ta.mp3\tOne"),
            "train.tsv:1: no column sentence: expected Common Voice's columns",
        ),
        ((HEADER,), "no utterances in "),
    ):
        with pytest.raises(UsageError, match=message) as error:
            read(common_voice(tmp_path, *lines))
        assert "\n" not in str(error.value)
    wrong = ("abc\ta.mp3\tOne", "abc\tb.mp3\tOne\t2", "abc\t\tOne\t2")
    sound, *bad = read(common_voice(tmp_path, HEADER, "abc\ta.mp3\tOne\t2", *wrong))
    assert sound.fault == ""
    faults = ("wrong number of columns: expected 4, found 3", "missing file: ", "unreadable audio: ")
    for utterance, fault in zip(bad, faults, strict=True):
        assert utterance.fault.startswith(fault)
        assert "\n" not in utterance.fault


def lhotse(root: Path, *cuts: dict[str, Any] | str, **options: Any) -> Any:
    lines = "".join(f"{cut if isinstance(cut, str) else json.dumps(cut)}\n" for cut in cuts)
    (root / "train.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    return component("data", "lhotse", root=str(root), **options)


def a_cut(root: Path, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """A cut of a stereo recording of three seconds under `root`, with a relative path. changes: by dotted key"""
    if not (root / "calls" / "call.wav").exists():
        (root / "calls").mkdir()
        both = np.stack([np.tile(TONE, 3), -0.5 * np.tile(TONE, 3)], axis=1)
        soundfile.write(root / "calls" / "call.wav", both, 16000)
    cut = make_cut(Utterance("call-1", "anna", root / "calls" / "call.wav", 0.0, 3.0, "one"))
    cut["recording"]["sources"][0]["source"] = "calls/call.wav"
    for key, value in (changes or {}).items():
        *path, last = key.split(".")
        place: Any = cut
        for name in path:
            place = place[int(name) if isinstance(place, list) else name]
        place[last] = value
    return cut


def test_cuts_may_be_parts_of_channels_or_have_a_file_for_each(tmp_path: Path) -> None:
    """Samples of the file itself: seconds 0.5 to 1.75 of the second channel."""
    part = {"start": 0.5, "duration": 1.25, "channel": 1}
    corpus = lhotse(tmp_path, a_cut(tmp_path, part), a_cut(tmp_path, {"id": "call-2", "start": 2.0, "duration": 1.0}))
    first, second = read(corpus)
    assert (first.id, first.speaker, first.text, first.fault) == ("call-1", "anna", "one", "")
    assert (second.offset, second.duration, second.channel, second.fault) == (2.0, 1.0, 0, "")
    samples, _ = soundfile.read(tmp_path / "calls" / "call.wav", dtype="int16")
    heard = audio.read(first.audio, first.offset, first.duration, first.channel)
    np.testing.assert_array_equal(heard, samples[8000:28000, 1])
    cut = a_cut(tmp_path, {"channel": 4})
    soundfile.write(tmp_path / "calls" / "far.wav", np.tile(TONE, 3), 16000)
    cut["recording"]["sources"] = [
        {"type": "file", "channels": [0, 1], "source": "calls/call.wav"},
        {"type": "file", "channels": [4], "source": "calls/far.wav"},
    ]
    cut["recording"]["transforms"] = [{"name": "Resample", "kwargs": {"target_sampling_rate": 8000}}]
    (utterance,) = read(lhotse(tmp_path, cut))
    assert (utterance.audio, utterance.channel, utterance.fault) == (tmp_path / "calls" / "far.wav", -1, "")


def test_without_speakers_a_recordings_cuts_are_one_unit(tmp_path: Path) -> None:
    silent = {"supervisions.0.speaker": None, "duration": 1.0}
    cuts = [a_cut(tmp_path, {**silent, "id": f"call-{start}", "start": float(start)}) for start in (0, 1)]
    assert [(u.speaker, u.unit) for u in read(lhotse(tmp_path, *cuts))] == [("", "file calls-call")] * 2
    named = lhotse(tmp_path, *cuts, speaker_of="^(.*)-")
    assert {u.speaker for u in read(named)} == {"call"}
    assert named.train == ["train"], "both extensions are no part of the name"


def test_a_cut_that_cannot_be_used_is_a_fault(tmp_path: Path) -> None:
    faults: list[tuple[dict[str, Any], str]] = [
        ({"type": "MixedCut"}, "wrong type of cut: expected MonoCut, found MixedCut"),
        ({"recording": None}, "no recording: the cut has only features"),
        ({"supervisions": [{}, {}]}, "wrong number of supervisions: expected 1 (trim_to_supervisions), found 2"),
        ({"recording.sources.0.type": "command"}, "wrong source: expected a file, found command"),
        ({"recording.transforms": [{"name": "Speed", "kwargs": {"factor": 0.9}}]}, "transformed recording: Speed"),
        ({"start": -1.0}, "wrong times: expected start and duration in seconds, found -1.0 and 3.0"),
        ({"start": 2.0}, "beyond the end: "),
        ({"channel": 7}, "wrong channel: the recording has no channel 7"),
        ({"recording": {"id": "call"}}, "not a valid Lhotse cut: KeyError: 'sources'"),
    ]
    sound, *bad = read(lhotse(tmp_path, a_cut(tmp_path), *(a_cut(tmp_path, changes) for changes, _ in faults)))
    assert sound.fault == ""
    for utterance, (_, fault) in zip(bad, faults, strict=True):
        assert utterance.fault.startswith(fault)
        assert "\n" not in utterance.fault
    (tmp_path / "train.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(UsageError, match=r"cannot read .*train\.jsonl\.gz: Not a gzipped file"):
        read(component("data", "lhotse", root=str(tmp_path)))


def huggingface(root: Path, **options: Any) -> Any:
    return component("data", "huggingface", root=str(root), **options)


def tones(tiny_corpus: Path) -> list[Utterance]:
    corpus = component("data", "librispeech", root=str(tiny_corpus), train=["train"], validation=["dev"], test=["test"])
    return [*corpus.read("train")]


@pytest.mark.parametrize("write", [write_shards, write_saved])
def test_audio_in_a_table_is_the_audio_of_its_file(
    write: Callable[[Path, Path], list[str]], tiny_corpus: Path, tmp_path: Path
) -> None:
    """In any order, and with the same hash of its content; only the paths differ."""
    write(tmp_path, tiny_corpus)
    corpus = huggingface(tmp_path, speaker_column="speaker_id")
    embedded, files = read(corpus), tones(tiny_corpus)
    assert [replace(u, audio=file.audio) for u, file in zip(embedded, files, strict=True)] == files
    for place in np.random.default_rng(0).permutation(len(files)):
        u, file = embedded[place], files[place]
        part = [audio.read(x.audio, 0.1, 0.3) for x in (u, file)]
        np.testing.assert_array_equal(*part)
        assert audio.header(u.audio) == audio.header(file.audio)


def test_a_table_is_read_again_when_it_has_changed(
    tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = list_folder(tiny_corpus / "train")
    write_parquet(tmp_path / "train.parquet", files)
    first = read(huggingface(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(audio, "header", None)
        patch.setattr("asr_ablations.components.data.huggingface.read_columns", None)
        assert read(huggingface(tmp_path)) == first, "from the index"
    write_parquet(tmp_path / "train.parquet", [replace(files[0], audio=files[1].audio), *files[1:]])
    again = read(huggingface(tmp_path))
    assert again[0].content == again[1].content == first[1].content
    assert again[2:] == first[2:]


def test_metadata_in_json_lines_names_files_in_folders(tmp_path: Path) -> None:
    """Files with the same name are told apart by their folders."""
    rows = [{"file_name": f"{speaker}/1.wav", "sentence": "One", "who": speaker} for speaker in ("a", "b")]
    for row in rows:
        (tmp_path / "train" / row["who"]).mkdir(parents=True)
        soundfile.write(tmp_path / "train" / row["file_name"], TONE, 16000)
    (tmp_path / "train" / "metadata.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    corpus = huggingface(tmp_path, text_column="sentence", speaker_column="who")
    assert [(u.id, u.speaker, u.text, u.fault) for u in read(corpus)] == [
        ("a-1", "a", "one", ""),
        ("b-1", "b", "one", ""),
    ]


def test_a_folder_of_datasets_that_cannot_be_read_is_one_line(tiny_corpus: Path, tmp_path: Path) -> None:
    files = list_folder(tiny_corpus / "train")
    missing = "train is missing: expected a folder of save_to_disk or .*src/prepare.py data=hugg"
    no_column = "train.parquet: no column sentence: expected one of audio, speaker_id, text"
    no_state, no_table = (
        "state.json: expected what save_to_disk writes: TypeError",
        "metadata.jsonl: expected a table with",
    )
    sentence = {"text_column": "sentence"}
    cases: list[tuple[str, Callable[[Path], Any], dict[str, str], str]] = [
        ("none", lambda path: None, {}, missing),
        (
            "data/train-00000-of-00002.parquet",
            lambda path: write_parquet(path, files),
            {},
            "data: 1 of 2 Parquet files of",
        ),
        ("train.parquet", lambda path: write_parquet(path, files), sentence, no_column),
        ("train.parquet", lambda path: path.write_bytes(b"PAR1"), {}, "cannot read .*train.parquet: "),
        ("train/state.json", lambda path: path.write_text("[]"), {}, no_state),
        ("train/metadata.jsonl", lambda path: path.write_text("[1]\n"), {}, no_table),
    ]
    for number, (name, make, options, message) in enumerate(cases):
        path = tmp_path / str(number) / name
        path.parent.mkdir(parents=True)
        make(path)
        corpus = huggingface(tmp_path / str(number), validation="train", test="train", **options)
        with pytest.raises(UsageError, match=message) as error:
            read(corpus)
        assert "\n" not in str(error.value)


def test_rows_that_cannot_be_used_are_faults(tiny_corpus: Path, tmp_path: Path) -> None:
    from pyarrow import Table, parquet

    table = make_table(list_folder(tiny_corpus / "train")[:5])
    rows = table.to_pylist()
    rows[1]["audio"]["bytes"] = rows[2]["text"] = rows[4]["audio"] = None
    rows[3]["audio"]["bytes"] = b"no audio"
    parquet.write_table(Table.from_pylist(rows, schema=table.schema), tmp_path / "train.parquet")
    utterances = read(huggingface(tmp_path))
    faults = [u.fault.partition(":")[0] for u in utterances]
    assert faults == ["", "no audio", "no text", "unreadable audio", "no audio"]
    assert not any("\n" in u.fault for u in utterances)


CONTENT = np.random.default_rng(0).integers(0, 256, 100_000, dtype=np.uint8).tobytes()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.files["a.tar.gz"] = CONTENT
        yield server


def fetched(server: Server, folder: Path, checksum: str = sha256(CONTENT)) -> bytes:
    download(f"{server.address}/a.tar.gz", folder / "a.tar.gz", checksum=checksum, setting="data.download.address")
    return (folder / "a.tar.gz").read_bytes()


def ranges(server: Server) -> list[str | None]:
    return [requested for _, requested in server.requests]


def test_a_broken_download_is_resumed_and_what_was_whole_already_only_verified(server: Server, tmp_path: Path) -> None:
    server.breaks = [40_000]
    with pytest.raises(
        UsageError,
        match=r"ended after 40000 of 100000 bytes; .*a\.tar\.gz\.part is kept, and the same command continues",
    ):
        fetched(server, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz.part"]
    server.requests.clear()
    assert fetched(server, tmp_path) == CONTENT
    assert ranges(server) == ["bytes=40000-"]
    (tmp_path / "a.tar.gz").unlink()
    server.requests.clear()
    (tmp_path / "a.tar.gz.part").write_bytes(CONTENT)
    assert fetched(server, tmp_path) == CONTENT
    assert ranges(server) == ["bytes=100000-"]


def test_a_wrong_checksum_and_a_file_that_is_not_there_are_reported(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz.part").write_bytes(b"of something else" * 100)
    with pytest.raises(UsageError, match=f"checksum [0-9a-f]{{64}}, expected {sha256(CONTENT)}; the file was removed"):
        fetched(server, tmp_path)
    assert list(tmp_path.iterdir()) == []
    server.requests.clear()
    with pytest.raises(UsageError, match=r"cannot download http://127.*/b\.tar\.gz: HTTP Error 404"):
        download(f"{server.address}/b.tar.gz", tmp_path / "b.tar.gz", checksum=None, setting="data.download.address")
    assert len(server.requests) == 1
    assert list(tmp_path.iterdir()) == []


def test_librispeech_is_downloaded_and_reads_as_where_it_came_from(server: Server, tmp_path: Path) -> None:
    """Genuine utterances under the names of LibriSpeech's archives."""
    root = shared_data("librispeech-mini/LibriSpeech")
    sources = {"train-clean-100": "train-clean-5", "dev-clean": "dev-clean-2", "test-clean": "test-clean"}
    server.files = {f"{split}.tar.gz": archive(root / source, split) for split, source in sources.items()}
    checksums = {split: sha256(server.files[f"{split}.tar.gz"]) for split in sources}
    sets = {"train": "clean100", "validation": ["dev-clean"], "test": ["test-clean"]}
    download = {"address": server.address, "sha256": checksums}
    corpus = component("data", "librispeech", root=str(tmp_path / "new" / "root"), download=download, **sets)
    corpus.fetch()
    for split, source in sources.items():
        original = component("data", "librispeech", root=str(root), train=[source]).read(source)
        assert [(u.id, u.text, u.content) for u in corpus.read(split)] == [(u.id, u.text, u.content) for u in original]
    assert {path.name for path in (tmp_path / "new" / "root").iterdir()} == {*sources}
    server.requests.clear()
    corpus.fetch()
    assert server.requests == [], "present splits are not requested again"


def polish(tiny_corpus: Path, folder: Path, ending: str = "flac", named: str = "") -> bytes:
    """An archive laid out as Multilingual LibriSpeech's, of the tiny corpus."""
    name = "mls_polish_opus" if ending == "opus" else "mls_polish"
    laid_out = component("data", "mls", root=str(folder / name), ending=ending)
    source = component("data", "an4", root=str(tiny_corpus), held_out=1)
    for split in ("train", "dev", "test"):
        write_split(laid_out, split, source.read(split))
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        tar.add(folder / name, named or name)
    return written.getvalue()


def test_mls_comes_in_one_archive(server: Server, tmp_path: Path, tiny_corpus: Path) -> None:
    content = server.files["mls_polish_opus.tar.gz"] = polish(tiny_corpus, tmp_path / "source", "opus")
    sums = {"mls_polish_opus": hashlib.md5(content).hexdigest()}
    download = {"address": server.address, "archive": "mls_polish", "md5": sums}
    corpus = component("data", "mls", root=str(tmp_path / "root"), ending="opus", download=download)
    server.breaks = [1000]
    with pytest.raises(UsageError, match="the same command continues"):
        corpus.fetch()
    corpus.fetch()
    assert [path for path, _ in server.requests] == ["/resources/12/mls_polish_opus.tar.gz"] * 2
    assert ranges(server) == [None, "bytes=1000-"]
    source = component("data", "an4", root=str(tiny_corpus), held_out=1)
    for split in ("train", "dev", "test"):
        assert [u.text for u in corpus.read(split)] == [u.text for u in source.read(split)]
    assert {path.name for path in (tmp_path / "root").iterdir()} == {"train", "dev", "test"}
    server.requests.clear()
    corpus.fetch()
    assert server.requests == []


def test_what_was_once_wrong_is_removed_and_then_fetched_anew(
    server: Server, tmp_path: Path, tiny_corpus: Path
) -> None:
    """No checksum of the archive is known: only unpacking shows the damage."""
    whole = polish(tiny_corpus, tmp_path / "source", named="mls_other")
    server.files = {"mls_other.tar.gz": whole}
    download = {"address": server.address, "archive": "mls_other"}
    corpus = component("data", "mls", root=str(tmp_path / "root"), download=download)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "mls_other.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"damaged: .*; it was removed; try again"):
        corpus.fetch()
    assert list((tmp_path / "root").iterdir()) == []
    corpus.fetch()
    assert {path.name for path in (tmp_path / "root").iterdir()} == {"train", "dev", "test"}


def test_an_archive_that_would_write_elsewhere_is_refused_and_leaves_nothing(tiny_corpus: Path, tmp_path: Path) -> None:
    for name, kind, target in (
        ("LibriSpeech/s/../../../outside", tarfile.REGTYPE, ""), ("/tmp/w-outside", tarfile.REGTYPE, ""),
        ("LibriSpeech/s/link", tarfile.SYMTYPE, "../../.."), ("LibriSpeech/s/link", tarfile.LNKTYPE, "../outside"),
        ("LibriSpeech/s/device", tarfile.CHRTYPE, ""),
    ):  # fmt: skip
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        path = tmp_path / "root" / "s.tar.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(archive(tiny_corpus / "test", "s", (member, b"evil" if kind == tarfile.REGTYPE else b"")))
        with pytest.raises(UsageError, match=r"because '.*' leads out of it, or is a link or device"):
            unpack(path, "LibriSpeech", ["s"], path.parent)
        assert list(tmp_path.rglob("*")) == [path.parent, path]
    assert not Path("/tmp/w-outside").exists()
