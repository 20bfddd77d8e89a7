"""Corpora in layouts that other projects define: read as they are, and wrong ones told in one line."""

import csv
import gzip
import json
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
from asr_ablations.data import audio
from asr_ablations.data.utterances import Utterance
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from tests.helpers.layouts import ROLES, make_cut, write_common_voice, write_cuts
from tests.helpers.run_results import results, train
from tests.helpers.support import component, compose, tiny_overrides

SMALL = ["model.width=8", "model.layers=1", "gpus=0", "logger=csv", "max_epochs=1", "batch.size=4", "init=xavier"]


def write_clips(root: Path, tones: Path) -> list[str]:
    for split in ROLES.values():
        write_common_voice(root / f"{split}.tsv", list_folder(tones / split))
    return ["data=common_voice"]


def write_manifests(root: Path, tones: Path) -> list[str]:
    for split in ROLES.values():
        write_cuts(root / f"{split}.jsonl.gz", list_folder(tones / split))
    return ["data=lhotse"]


LAYOUTS: dict[str, Callable[[Path, Path], list[str]]] = {"common_voice": write_clips, "lhotse": write_manifests}
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


REFUSED_TABLES: list[tuple[tuple[str, ...], str]] = [
    (("client_id\tpath\ttext", "abc\ta.mp3\tOne"), "train.tsv:1: no column sentence: expected Common Voice's columns"),
    (("client_id,path,sentence", "abc,a.mp3,One"), "train.tsv:1: no column client_id, path, sentence: expected"),
    ((HEADER,), "no utterances in "),
]
FAULTY_LINES: list[tuple[str, str]] = [
    ("abc\ta.mp3\tOne", "wrong number of columns: expected 4, found 3"),
    ("abc\t../a.mp3\tOne\t2", "wrong path: expected the name of a file in clips, found '../a.mp3'"),
    ("abc\tb.mp3\tOne\t2", "missing file: "),
    ("abc\t\tOne\t2", "wrong path: expected the name of a file in clips, found ''"),
]


@pytest.mark.parametrize(("lines", "message"), REFUSED_TABLES)
def test_a_wrong_table_of_common_voice_is_one_line(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as error:
        read(common_voice(tmp_path, *lines))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("line", "fault"), FAULTY_LINES)
def test_a_wrong_line_of_common_voice_is_a_fault(tmp_path: Path, line: str, fault: str) -> None:
    sound, bad = read(common_voice(tmp_path, HEADER, "abc\ta.mp3\tOne\t2", line))
    assert sound.fault == ""
    assert bad.fault.startswith(fault)
    assert "\n" not in bad.fault


def test_a_missing_table_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"train\.tsv is missing: expected a table of Common Voice.*data=common_voice"):
        component("data", "common_voice", root=str(tmp_path)).prepare()


def lhotse(root: Path, *cuts: dict[str, Any] | str, **options: Any) -> Any:
    lines = "".join(f"{cut if isinstance(cut, str) else json.dumps(cut)}\n" for cut in cuts)
    (root / "train.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
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


def test_a_cut_is_a_part_of_a_channel_of_a_recording(tmp_path: Path) -> None:
    """Samples of the file itself: seconds 0.5 to 1.75 of the second channel."""
    part = {"start": 0.5, "duration": 1.25, "channel": 1}
    corpus = lhotse(tmp_path, a_cut(tmp_path, part), a_cut(tmp_path, {"id": "call-2", "start": 2.0, "duration": 1.0}))
    first, second = read(corpus)
    assert (first.id, first.speaker, first.text, first.fault) == ("call-1", "anna", "one", "")
    assert (second.offset, second.duration, second.channel, second.fault) == (2.0, 1.0, 0, "")
    samples, _ = soundfile.read(tmp_path / "calls" / "call.wav", dtype="int16")
    heard = audio.read(first.audio, first.offset, first.duration, first.channel)
    np.testing.assert_array_equal(heard, samples[8000:28000, 1])


def test_a_recording_may_have_a_file_for_each_channel(tmp_path: Path) -> None:
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
    assert [(u.speaker, u.unit) for u in read(lhotse(tmp_path, *cuts))] == [("", "file call-1")] * 2
    named = lhotse(tmp_path, *cuts, speaker_of="^(.*)-")
    assert {u.speaker for u in read(named)} == {"call"}
    assert named.train == ["train"], "both extensions are no part of the name"


FAULTY_CUTS: list[tuple[dict[str, Any], str]] = [
    ({"type": "MixedCut"}, "wrong type of cut: expected MonoCut, found MixedCut"),
    ({"recording": None}, "no recording: the cut has only features"),
    ({"supervisions": []}, "wrong number of supervisions: expected 1, found 0"),
    ({"supervisions": [{}, {}]}, "wrong number of supervisions: expected 1, found 2; lhotse's trim_to_supervisions"),
    ({"recording.sources.0.type": "command"}, "wrong source: expected a file, found command"),
    ({"recording.sources.0.source": "calls/no.wav"}, "missing file: "),
    ({"recording.transforms": [{"name": "Speed", "kwargs": {"factor": 0.9}}]}, "transformed recording: Speed"),
    ({"supervisions.0.text": None}, "no text: expected a string, found None"),
    ({"start": -1.0}, "wrong times: expected start and duration in seconds, found -1.0 and 3.0"),
    ({"start": 2.0}, "beyond the end: "),
    ({"channel": 7}, "wrong channel: the recording has no channel 7"),
    ({"recording": {"id": "call"}}, "not a cut of lhotse: KeyError: 'sources'"),
    ({"supervisions.0.text": "a\0"}, "wrong characters: contains NUL"),
]


@pytest.mark.parametrize(("changes", "fault"), FAULTY_CUTS)
def test_a_cut_that_cannot_be_used_is_a_fault(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    sound, bad = read(lhotse(tmp_path, a_cut(tmp_path, {"id": "good"}), a_cut(tmp_path, changes)))
    assert sound.fault == ""
    assert bad.fault.startswith(fault)
    assert "\n" not in bad.fault


def test_lines_that_are_no_cuts_are_faults(tmp_path: Path) -> None:
    manifest = {"audio_filepath": "calls/call.wav", "text": "one"}
    bad = read(lhotse(tmp_path, "{cut", "[1]", manifest))
    assert [u.fault.partition(":")[0] for u in bad] == ["not JSON", "wrong type of cut", "wrong type of cut"]
    assert [u.id for u in bad] == [f"train.jsonl.gz:{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip", "cannot read .*train.jsonl.gz: Not a gzipped file"),
        (gzip.compress(b"{}" * 900)[:20], "cannot read .*train.jsonl.gz: Compressed file ended"),
        (gzip.compress(b""), "no utterances in .*train.jsonl.gz"),
        (gzip.compress(b"\xff\xfa"), "train.jsonl.gz:1: byte 1 is not UTF-8"),
    ],
)
def test_a_manifest_of_cuts_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    corpus = lhotse(tmp_path)
    (tmp_path / "train.jsonl.gz").write_bytes(content)
    with pytest.raises(UsageError, match=message) as error:
        read(corpus)
    assert "\n" not in str(error.value)
