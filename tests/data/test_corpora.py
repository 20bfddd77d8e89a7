"""The corpora, and their utterances."""

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.components.data.librispeech import LibriSpeech, list_folder
from asr_ablations.config.build import build
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.errors import UsageError
from tests.helpers.every_key import hints
from tests.helpers.layouts import delivered, lay_out
from tests.helpers.support import component, compose, shared_data


def librispeech(root: Path | None, **splits: list[str]) -> LibriSpeech:
    corpus: LibriSpeech = component("data", "librispeech", root=root and str(root), **splits)
    return corpus


def test_librispeech_reads_what_the_files_say() -> None:
    root, split = shared_data("librispeech-mini/LibriSpeech"), "dev-clean-2"
    lines = [line for file in sorted((root / split).rglob("*.trans.txt")) for line in file.read_text().splitlines()]
    transcripts = {id_: text.lower() for id_, _, text in (line.partition(" ") for line in lines)}
    utterances = librispeech(root).read(split)
    assert {u.id: u.text for u in utterances} == transcripts
    assert {u.audio for u in utterances} == set((root / split).rglob("*.flac"))
    assert {u.speaker for u in utterances} == {"1272", "1988", "2412", "3752"}
    for u in utterances:
        samples, rate = soundfile.read(u.audio)
        assert u.duration == pytest.approx(len(samples) / rate, abs=1e-9)
        assert (u.audio.stem, u.offset, u.id.split("-")[0]) == (u.id, 0.0, u.speaker)


def test_an4_holds_speakers_out_and_its_folds_test_every_speaker_once() -> None:
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
    tested: Counter[str] = Counter()
    for fold in range(4):
        corpus = component("data", "an4", root=str(shared_data("an4")), fold=fold, folds=4)
        speakers = {name: {u.speaker for u in corpus.read(name)} for name in ("train", "dev", "test")}
        assert len(speakers["test"]) in (19, 20)  # a quarter of 79
        assert len(speakers["dev"]) == 7
        assert sum(map(len, speakers.values())) == len(set.union(*speakers.values())) == 79
        assert sum(len(corpus.read(name)) for name in speakers) == 948 + 65
        tested.update(speakers["test"])
    assert len(tested) == tested.total() == 79
    for keys, line in (
        ({"fold": 4, "folds": 4}, "data.fold=4: expected null or 0 to 3, one of data.folds=4"),
        ({"fold": 0, "folds": 80}, "data.folds=80: expected 2 to 79, of 79 speakers"),
    ):
        with pytest.raises(UsageError, match=line):
            component("data", "an4", root=str(shared_data("an4")), **keys).read("test")


def test_speechocean762_is_read_from_its_kaldi_directories() -> None:
    """README of the shared data, which has a directory dev: 1,668, 298, 1,841 sentences of 100, 18, 109 speakers."""
    root = shared_data("speechocean762")
    corpus = component("data", "speechocean762", root=str(root), held_out=None)
    corpus.prepare()
    sets = {name: corpus.read(name) for name in ("train", "dev", "test")}
    speakers = {name: {u.speaker for u in utterances} for name, utterances in sets.items()}
    assert {name: (len(sets[name]), len(speakers[name])) for name in sets} == {
        "train": (1668, 100), "dev": (298, 18), "test": (1841, 109),
    }  # fmt: skip
    assert len(set.union(*speakers.values())) == 227
    assert next(iter(sets["train"])).text == "mike likes the white one"
    assert not any(u.fault for utterances in sets.values() for u in utterances)


def test_named_training_sets_are_the_thesiss_and_missing_ones_end_in_the_command_that_prepares_them(
    tmp_path: Path,
) -> None:
    """Ambroszczyk2019 §2.8; dev and test stay four sets."""
    corpus = component("data", "librispeech", train=["clean460", "train-other-500"])
    assert corpus.train == ["train-clean-100", "train-clean-360", "train-other-500"]
    assert corpus.validation + corpus.test == ["dev-clean", "dev-other", "test-clean", "test-other"]
    with pytest.raises(UsageError) as error:
        component("data", "librispeech", root=str(tmp_path), train="clean460").prepare()
    command = f"python src/prepare.py data=librispeech data.root={tmp_path} data.train=clean460 "
    assert command + "'data.validation=[dev-clean,dev-other]' 'data.test=[test-clean,test-other]'" in str(error.value)


@pytest.mark.parametrize("name", delivered())
def test_every_corpus_reads_what_it_writes(name: str, tiny_corpus: Path, tmp_path: Path) -> None:
    def spoken(corpus: Any, splits: list[str]) -> list[tuple[Any, ...]]:
        """What is said in splits, and by whom."""
        utterances = [utterance for split in splits for utterance in corpus.read(split)]
        return sorted((u.speaker, u.text, u.duration, u.content, u.fault) for u in utterances)

    beside = [word for word in hints(f"data={name}").get("beside", ()) if "<" not in word]
    corpus = build(compose(f"data={name}", f"data.root={tmp_path / 'corpus'}", *beside).data)
    with pytest.raises(UsageError, match=rf"python src/prepare\.py data={name} data\.root={tmp_path}/corpus ") as error:
        corpus.prepare()
    assert "\n" not in str(error.value)
    lay_out(corpus, tiny_corpus)
    corpus.prepare()
    tones = librispeech(tiny_corpus, train=["train"], validation=["dev"], test=["test"])
    assert [spoken(corpus, [split]) for split in corpus.test] == [spoken(tones, tones.test)] * len(corpus.test)
    whole = set(spoken(corpus, [*corpus.train, *corpus.validation, *corpus.test]))
    assert whole == set(spoken(tones, tones.folders()))
    assert len(whole) == 18


def chapter(root: Path, transcripts: str) -> Path:
    folder = root / "1" / "2"
    folder.mkdir(parents=True)
    (folder / "1-2.trans.txt").write_text(transcripts, encoding="utf-8")
    return folder


def faults(root: Path) -> dict[str, str]:
    """By id, of a corpus of one split."""
    corpus = librispeech(root.parent, train=[root.name], validation=[root.name], test=[root.name])
    return {u.id: u.fault for u in corpus.read(root.name)}


def test_a_missing_flac_audio_without_a_transcript_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    folder = chapter(tmp_path / "split", "\n1-2-0000 A\n1-2-0002 A WORD\n")
    for id_ in ("1-2-0000", "1-2-0001"):
        soundfile.write(folder / f"{id_}.flac", [0.1] * 1600, 16000)
    reasons = faults(tmp_path / "split")
    assert reasons["1-2-0000"] == ""
    assert reasons["1-2-0001"].startswith("audio without a transcript")
    assert re.match(r"missing file: .*1-2-0002\.flac", reasons["1-2-0002"])
    (tmp_path / "empty").mkdir()
    chapter(tmp_path / "blank", "\n\n")
    for name in ("empty", "blank"):
        with pytest.raises(UsageError, match=f"no utterances in {tmp_path / name}"):
            list_folder(tmp_path / name)


def test_a_folder_that_cannot_be_read_is_an_error_and_not_an_empty_one() -> None:
    """Path.glob passes over it in silence. Root may read everything, and tries as nobody."""
    with TemporaryDirectory(dir="/tmp") as open_to_all:  # pytest's own folder is closed to others
        root = Path(open_to_all)
        root.chmod(0o755)
        chapter(root, "1-2-0000 A\n")
        closed = root / "1" / "3"
        closed.mkdir(mode=0o000)
        user = os.geteuid()
        try:
            os.seteuid(user or 65534)
            with pytest.raises(UsageError, match=f"cannot read the folder {closed}: Permission denied"):
                faults(root)
        finally:
            os.seteuid(user)
            closed.chmod(0o700)


def test_mls_takes_opus_and_names_lines_without_an_id(tmp_path: Path) -> None:
    folder = tmp_path / "train" / "audio" / "10" / "20"
    folder.mkdir(parents=True)
    tone = 0.3 * np.sin(np.arange(16000) / 5)
    soundfile.write(folder / "10_20_000001.opus", tone, 16000, format="OGG", subtype="OPUS")
    (tmp_path / "train" / "transcripts.txt").write_text("10_20_000001\tjeden\nbez numeru\n10_20_000002\tdwa\n")
    utterances = {u.id: u for u in component("data", "mls", root=str(tmp_path), ending="opus").read("train")}
    assert utterances["10_20_000001"].fault == ""
    assert utterances["10_20_000001"].duration == pytest.approx(1.0)
    assert utterances["train/transcripts.txt:2"].fault.startswith("no id: 'bez numeru'")
    assert utterances["10_20_000002"].fault.startswith("missing file")


def test_checksums_of_librispeech_are_torchaudios() -> None:
    from torchaudio.datasets.librispeech import _CHECKSUMS

    download = compose("data=librispeech").data.download
    assert {f"{download.address}/{split}.tar.gz": sha for split, sha in download.sha256.items()} == _CHECKSUMS


LISTED = [
    Utterance(f"u-{i}", "s" * (i % 3), Path(f"/a/{name}.flac"), i / 7, 1.5 * i, "zażółć gęślą jaźń"[:i], "c" * (i % 2),
              "x: y" * (i == 3), "voice a" * (i == 5))
    for i, name in enumerate(["a", "b", "ż", "no utf-8 \udcff", "e", "f", "g"])
]  # fmt: skip


def test_columns_hold_what_a_list_holds_and_are_joined_and_replaced() -> None:
    utterances = Utterances.convert(LISTED)
    assert [*utterances] == LISTED
    assert utterances == LISTED
    assert utterances != LISTED[1:]
    assert utterances[-1] == LISTED[-1]
    with pytest.raises(IndexError):
        utterances[7]
    assert utterances[2:5] == LISTED[2:5]
    assert utterances[::-1].take(np.array([0, 6])) == [LISTED[6], LISTED[0]]
    assert [*utterances.strings("audio")] == [str(u.audio) for u in LISTED]
    assert utterances.column("duration").tolist() == [u.duration for u in LISTED]
    assert utterances.has("fault").tolist() == [bool(u.fault) for u in LISTED]
    assert Utterances.convert([]) == []
    assert Utterances.join([]) == []
    joined = Utterances.join([utterances[4:], Utterances.convert([]), utterances[:2]])
    expected = [*LISTED[4:], *LISTED[:2]]
    assert joined == expected
    assert [*joined.strings("id")] == [u.id for u in expected]
    changed = joined.with_faults({1: "bad: x", 4: "worse: y"})
    faulty = replace(expected[1], fault="bad: x"), replace(expected[4], fault="worse: y")
    assert changed == [expected[0], faulty[0], *expected[2:4], faulty[1]]
    assert joined == expected
    assert changed.has("fault").tolist() == [False, True, False, False, True]
