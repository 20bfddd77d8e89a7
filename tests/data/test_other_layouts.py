"""Corpora in layouts that other projects define: read as they are, and wrong ones told in one line."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.commands.prepare_corpus import prepare
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.components.data.librispeech import list_folder
from asr_ablations.config.build import build
from asr_ablations.data.utterances import Utterance
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from tests.helpers.layouts import ROLES, write_common_voice
from tests.helpers.run_results import results, train
from tests.helpers.support import component, compose, tiny_overrides

SMALL = ["model.width=8", "model.layers=1", "gpus=0", "logger=csv", "max_epochs=1", "batch.size=4", "init=xavier"]


def write_clips(root: Path, tones: Path) -> list[str]:
    for split in ROLES.values():
        write_common_voice(root / f"{split}.tsv", list_folder(tones / split))
    return ["data=common_voice"]


LAYOUTS: dict[str, Callable[[Path, Path], list[str]]] = {"common_voice": write_clips}
"""Each writes the tones in a layout under a root, and returns the overrides that read them."""


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_prepared_trained_on_and_compared(
    name: str, tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The losses are those of the same tones in LibriSpeech's layout, to the last digit."""
    layout = [*LAYOUTS[name](tmp_path / "root", tiny_corpus), f"data.root={tmp_path / 'root'}", *SMALL]
    prepare(compose(*layout))
    assert "fingerprint" in capsys.readouterr().out
    runs = [
        train(compose(*layout, *more, f"outputs={tmp_path / 'outputs'}"))
        for more in (["rnn=lstm"], ["rnn=gru"], ["rnn=lstm", "cache=none"])
    ]
    tones = train(compose(*tiny_overrides(tiny_corpus), *SMALL, "rnn=lstm", f"outputs={tmp_path / 'tones'}"))
    assert {results(run)["losses"] for run in (runs[0], runs[2])} == {results(tones)["losses"]}
    columns = ("set", "id", "speaker", "reference", "hypothesis", "duration")
    assert spoken(runs[0], columns) == spoken(tones, columns)
    comparison = compare_folders(runs[:2], Options())
    assert {arm.name for arm in comparison.arms} == {"rnn=lstm", "rnn=gru"}
    assert len(comparison.verdicts) == 1


def spoken(folder: Path, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    with (folder / "utterances.csv").open() as file:
        return sorted(tuple(row[column] for column in columns) for row in csv.DictReader(file))


@pytest.mark.parametrize("name", LAYOUTS)
def test_subsets_are_drawn_by_speaker_and_faults_are_left_out(name: str, tiny_corpus: Path, tmp_path: Path) -> None:
    layout = [*LAYOUTS[name](tmp_path, tiny_corpus), f"data.root={tmp_path}", "data.subset={hours: 0.0006, seed: 0}"]
    corpus = build_corpus(layout)
    assert 0 < len(corpus.read_set("train")) < len(corpus.read("train")) == 10
    assert len({u.speaker for u in corpus.read("train")}) == 2
    assert [*corpus.read_set("dev")] == [*corpus.read("dev")]
    assert not any(u.fault for u in corpus.read("train"))
    assert corpus.read("train")[0].text.islower()
    assert build_corpus([*layout, "data.normalise=none"]).read("train")[0].text.isupper()


def build_corpus(overrides: list[str]) -> Any:
    corpus = build(compose(*overrides).data)
    corpus.prepare()
    return corpus


TONE = 0.3 * np.sin(np.arange(16000) / 5)
HEADER = "client_id\tpath\tsentence\tup_votes"


def common_voice(root: Path, *lines: str, **options: Any) -> Any:
    (root / "clips").mkdir(exist_ok=True)
    soundfile.write(root / "clips" / "a.mp3", TONE, 16000)
    (root / "train.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return component("data", "common_voice", root=str(root), **options)


def read(corpus: Any, split: str = "train") -> list[Utterance]:
    return [*corpus.read(split)]


def test_common_voice_is_read_with_its_quotes_speakers_and_converted_clips(tmp_path: Path) -> None:
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


def test_tables_of_several_languages_are_told_apart(tmp_path: Path) -> None:
    for language in ("en", "pl"):
        (tmp_path / language).mkdir()
        common_voice(tmp_path / language, HEADER, f"abc\ta.mp3\t{language}\t2")
    both = component("data", "common_voice", root=str(tmp_path), train=["en/train.tsv", "pl/train.tsv"])
    assert both.train == ["en-train", "pl-train"]
    assert [u.text for u in both.read_set("train")] == ["en", "pl"]


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("client_id\tpath\ttext", "abc\ta.mp3\tOne"), "train.tsv:1: no column sentence: expected Common Voice's columns"),
    (("client_id,path,sentence", "abc,a.mp3,One"), "train.tsv:1: no column client_id, path, sentence: expected"),
    ((HEADER,), "no utterances in "),
]
FAULTS: list[tuple[str, str]] = [
    ("abc\ta.mp3\tOne", "wrong number of columns: expected 4, found 3"),
    ("abc\t../a.mp3\tOne\t2", "wrong path: expected the name of a file in clips, found '../a.mp3'"),
    ("abc\tb.mp3\tOne\t2", "missing file: "),
    ("abc\t\tOne\t2", "wrong path: expected the name of a file in clips, found ''"),
]


@pytest.mark.parametrize(("lines", "message"), REFUSED)
def test_a_wrong_table_of_common_voice_is_one_line(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        read(common_voice(tmp_path, *lines))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("line", "fault"), FAULTS)
def test_a_wrong_line_of_common_voice_is_a_fault(tmp_path: Path, line: str, fault: str) -> None:
    sound, bad = read(common_voice(tmp_path, HEADER, "abc\ta.mp3\tOne\t2", line))
    assert sound.fault == ""
    assert bad.fault.startswith(fault)
    assert "\n" not in bad.fault


def test_a_missing_table_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"train\.tsv is missing: expected a table of Common Voice.*data=common_voice"):
        component("data", "common_voice", root=str(tmp_path)).prepare()
