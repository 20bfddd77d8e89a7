"""The readers of LibriSpeech and AN4 on real data, and what they say of folders that are wrong."""

from collections import Counter
from pathlib import Path

import pytest
import soundfile

from asr_ablations.data.librispeech import LibriSpeech, read_folder
from asr_ablations.errors import UsageError
from support import component, shared_data

MINI = "librispeech-mini/LibriSpeech"
SPEAKERS = {
    "test-clean": {"61", "121", "237"},
    "dev-clean-2": {"1272", "1988", "2412", "3752"},
    "train-clean-5": {"1088"},
}
"""The folders under each split, by ls."""


def librispeech(root: Path | None, **splits: list[str]) -> LibriSpeech:
    corpus: LibriSpeech = component("data", "librispeech", root=root and str(root), **splits)
    return corpus


@pytest.mark.parametrize("split", SPEAKERS)
def test_librispeech_reads_what_the_files_say(split: str) -> None:
    root = shared_data(MINI)
    lines = [line for file in sorted((root / split).rglob("*.trans.txt")) for line in file.read_text().splitlines()]
    transcripts = {id_: text.lower() for id_, _, text in (line.partition(" ") for line in lines)}
    utterances = librispeech(root).read(split)
    assert {u.id: u.text for u in utterances} == transcripts
    assert {u.audio for u in utterances} == set((root / split).rglob("*.flac"))
    assert {u.speaker for u in utterances} == SPEAKERS[split]
    for u in utterances:
        samples, rate = soundfile.read(u.audio)
        assert u.duration == pytest.approx(len(samples) / rate, abs=1e-9)
        assert (u.audio.stem, u.offset, u.id.split("-")[0]) == (u.id, 0.0, u.speaker)


def test_an4_holds_speakers_out() -> None:
    """README of the shared data: 948 training utterances of 74 speakers, 65 test utterances of 5 others."""
    corpus = component("data", "an4", root=str(shared_data("an4")), held_out=7)
    corpus.prepare()
    sets = {name: corpus.read(name) for name in ("train", "dev", "test")}
    speakers = {name: {u.speaker for u in utterances} for name, utterances in sets.items()}
    assert [len(speakers[name]) for name in ("train", "dev", "test")] == [74 - 7, 7, 5]
    assert len(sets["train"]) + len(sets["dev"]) == 948
    assert len(sets["test"]) == 65
    assert not speakers["train"] & speakers["dev"]
    assert not (speakers["train"] | speakers["dev"]) & speakers["test"]
    assert max(Counter(u.id for split in sets.values() for u in split).values()) == 1


@pytest.mark.parametrize("folder", ["an4", "an4/AN4"])
def test_an4_is_found_from_both_folders_and_always_holds_the_same_out(folder: str) -> None:
    corpus = component("data", "an4", root=str(shared_data(folder)), held_out=3)
    few = {u.speaker for u in corpus.read("dev")}
    more = {u.speaker for u in component("data", "an4", root=str(shared_data("an4")), held_out=9).read("dev")}
    assert len(few) == 3
    assert few < more


def test_the_train_split_may_be_several_folders(tiny_corpus: Path) -> None:
    corpus = librispeech(tiny_corpus, train=["train", "dev"], validation=["dev"], test=["test"])
    corpus.prepare()
    assert corpus.folders() == ["train", "dev", "test"]


def test_a_missing_root_or_folder_is_named(tiny_corpus: Path) -> None:
    with pytest.raises(UsageError, match=r"data.root is not set.*train-clean-100"):
        librispeech(None).prepare()
    with pytest.raises(UsageError, match="no folder train-clean-100"):
        librispeech(tiny_corpus).prepare()


def chapter(root: Path, transcripts: str) -> Path:
    folder = root / "1" / "2"
    folder.mkdir(parents=True)
    (folder / "1-2.trans.txt").write_text(transcripts, encoding="utf-8")
    return folder


def test_a_missing_flac_is_named_with_its_line(tmp_path: Path) -> None:
    chapter(tmp_path, "\n1-2-0000 A WORD\n")
    with pytest.raises(UsageError, match=r"1-2.trans.txt:2: no audio file 1-2-0000.flac"):
        read_folder(tmp_path)


def test_a_broken_flac_is_named(tmp_path: Path) -> None:
    (chapter(tmp_path, "1-2-0000 A WORD\n") / "1-2-0000.flac").write_bytes(b"not audio")
    with pytest.raises(UsageError, match=r"cannot read audio .*1-2-0000.flac"):
        read_folder(tmp_path)


@pytest.mark.parametrize("transcripts", [None, "", "\n\n"])
def test_an_empty_folder_is_refused(tmp_path: Path, transcripts: str | None) -> None:
    if transcripts is not None:
        chapter(tmp_path, transcripts)
    with pytest.raises(UsageError, match=f"no utterances in {tmp_path}"):
        read_folder(tmp_path)


def test_an_utterance_may_be_silent(tmp_path: Path) -> None:
    folder = chapter(tmp_path, "1-2-0000\n1-2-0001 ONE\n")
    for id_ in ("1-2-0000", "1-2-0001"):
        soundfile.write(folder / f"{id_}.flac", [0.0] * 1600, 16000)
    assert [u.text for u in read_folder(tmp_path)] == ["", "one"]
