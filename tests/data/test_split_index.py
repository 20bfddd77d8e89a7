"""The index of a split: a second run, or rank, reads nothing again; whatever changes is noticed."""

import multiprocessing
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.components.data.librispeech import LibriSpeech
from asr_ablations.config.build import build
from asr_ablations.data import audio, audio_checks, split_index
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.utterances import Utterance, Utterances
from tests.helpers.support import compose, tiny_overrides

FORK = multiprocessing.get_context("fork")
OLD = 1_600_000_000_000_000_000


@pytest.fixture
def root(tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of its own that nobody has touched for years, and an index of its own."""
    shutil.copytree(tiny_corpus, tmp_path / "corpus")
    for path in [tmp_path / "corpus", *(tmp_path / "corpus").rglob("*")]:
        os.utime(path, ns=(OLD, OLD))
    monkeypatch.setenv("ASR_ABLATIONS_INDEX", str(tmp_path / "memory" / "audio.sqlite"))
    monkeypatch.setattr(split_index, "LEAST", 0)
    return tmp_path / "corpus"


def read(root: Path) -> Utterances:
    corpus: Corpus = build(compose(*tiny_overrides(root)).data)
    return corpus.read("train")


class Work:
    """What reading does: texts and folders read, files inspected."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts = self.files = 0
        find, inspect = LibriSpeech.find, audio_checks.inspect

        def counted_find(corpus: LibriSpeech, split: str) -> list[Utterance]:
            self.texts += 1
            return find(corpus, split)

        def counted_inspect(utterances: Sequence[Utterance], title: str) -> Utterances:
            self.files += len(utterances)
            return inspect(utterances, title)

        monkeypatch.setattr(LibriSpeech.__mro__[1], "find", counted_find)
        monkeypatch.setattr(audio_checks, "inspect", counted_inspect)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def test_a_second_start_reads_no_text_and_opens_no_audio(root: Path, work: Work) -> None:
    first = read(root)
    assert (work.texts, work.files) == (1, len(first))
    second = read(root)
    assert (work.texts, work.files) == (1, len(first))
    assert second == first
    assert second.column("changed").tolist() == [OLD] * len(first)


def _append(path: Path, text: str) -> None:
    path.write_bytes(path.read_bytes() + text.encode())


def _first(root: Path, pattern: str) -> Path:
    return sorted((root / "train").rglob(pattern))[0]


CHANGES: dict[str, Callable[[Path], Any]] = {
    "audio is touched": lambda root: os.utime(_first(root, "*.flac"), ns=(OLD, OLD + 1)),
    "audio of another size": lambda root: _append(_first(root, "*.flac"), "x"),
    "audio is gone": lambda root: _first(root, "*.flac").unlink(),
    "audio without a text": lambda root: shutil.copy(_first(root, "*.flac"), _first(root, "*.flac").with_stem("new")),
    "another text": lambda root: _append(_first(root, "*.trans.txt"), "\n"),
    "a text is gone": lambda root: _first(root, "*.trans.txt").unlink(),
    "another speaker": lambda root: (root / "train" / "99").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_read_anew(root: Path, work: Work, change: str) -> None:
    before = read(root)
    CHANGES[change](root)
    after = read(root)
    assert work.texts == 2
    assert (after == before) == (change in ("audio is touched", "another text", "another speaker"))


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "gone"])
def test_a_damaged_index_is_made_again(root: Path, work: Work, damage: str) -> None:
    before = read(root)
    (path,) = root.parent.glob("memory/*-splits/*.npz")
    content = bytearray(path.read_bytes())
    content[content.index(bytes(str(before[0].audio), "utf-8"))] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"flipped": content, "short": content[: len(content) // 2], "empty": b""}[damage])
    assert read(root) == before
    assert work.texts == 2
    assert read(root) == before
    assert work.texts == 2


def test_other_code_reads_anew(root: Path, work: Work, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read(root)
    other = tmp_path / "audio.py"
    other.write_text("# another version")
    monkeypatch.setattr(audio, "__file__", str(other))
    read(root)
    assert work.texts == 2


def test_what_has_only_just_changed_is_not_kept(root: Path, work: Work) -> None:
    """A second change within one tick of the clock of files might leave size and time."""
    os.utime(_first(root, "*.flac"))
    read(root)
    read(root)
    assert work.texts == 2


def test_a_class_that_reads_more_than_its_place_says_is_read_always(root: Path, work: Work) -> None:
    class Own(LibriSpeech):
        def find(self, split: str) -> list[Utterance]:
            return super().find(split)[:1]

    for _ in range(2):
        corpus: Corpus = build(compose(*tiny_overrides(root)).data)
        corpus.__class__ = Own
        assert len(corpus.read("train")) == 1
    assert work.texts == 2


def test_faults_that_decoding_found_since_are_known(root: Path) -> None:
    before = read(root)
    u = before[1]
    row = audio.DecodedRow(str(u.audio), u.offset, u.duration, u.audio.stat().st_size, OLD, "silent audio: all 0")
    audio.store([row])
    after = read(root)
    assert [x.fault for x in after] == ["silent audio: all 0" if i == 1 else "" for i in range(len(before))]


def read_slowly(root: Path, begun: Any, go_on: Any, inspections: Any) -> None:
    inspect = audio_checks.inspect

    def slow(utterances: Sequence[Utterance], title: str) -> Utterances:
        begun.set()
        go_on.wait(60)
        with inspections.get_lock():
            inspections.value += 1
        return inspect(utterances, title)

    audio_checks.inspect = slow
    assert len(read(root)) > 1


def test_of_two_ranks_one_reads_and_the_other_waits_for_it(root: Path) -> None:
    begun, go_on, inspections = FORK.Event(), FORK.Event(), FORK.Value("i", 0)
    ranks = [FORK.Process(target=read_slowly, args=(root, begun, go_on, inspections)) for _ in range(2)]
    ranks[0].start()
    assert begun.wait(60)
    ranks[1].start()
    ranks[1].join(0.5)
    assert ranks[1].is_alive(), "it waits for the first"
    go_on.set()
    for process in ranks:
        process.join(60)
    assert [process.exitcode for process in ranks] == [0, 0]
    assert inspections.value == 1
