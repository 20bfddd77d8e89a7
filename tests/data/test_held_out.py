"""Held-out speech that is in training, by audio, speaker and sentence; and how complaints are grouped."""

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.commands.prepare_corpus import prepare
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.description import in_training, shares_audio
from asr_ablations.data.utterance_selection import complaints, judge
from asr_ablations.data.utterances import Utterance, Utterances
from asr_verdicts.comparison import compare
from asr_verdicts.design import Options
from asr_verdicts.record import DataRecord, SetContent
from tests.helpers.invented_records import record, records
from tests.helpers.support import component, compose

LETTERS = Letters("abcdefgh ")


def utterance(content: str, begin: float, end: float, **more: Any) -> Utterance:
    """Of a file whose name says nothing of its content."""
    return Utterance("u", **{"speaker": "", "text": "", **more}, audio=Path(f"/{begin}"), offset=begin,
                     duration=end - begin, content=content)  # fmt: skip


def test_shared_audio_speakers_and_sentences_are_counted() -> None:
    trained = [
        utterance("a", 0, 2), utterance("a", 4, 60), utterance("a", 5, 6), utterance("b", 3, 4, channel=0),
        utterance("c", 0, 1.5),
    ]  # fmt: skip
    spoken = [
        (utterance("a", 0, 2), True), (utterance("a", 1.9, 2.5), True),
        (utterance("a", 2, 4), False), (utterance("a", 1.97, 4.03), False), (utterance("a", 50, 51), True),
        (utterance("a", 0.5, 0.52), True), (utterance("a", 60, 61), False), (utterance("d", 0, 2), False),
        (utterance("b", 3, 4, channel=1), False), (utterance("b", 3, 4, channel=0), True),
        (utterance("b", 3, 4), True), (utterance("a", 0, 2, channel=1), True), (utterance("b", 0, 3), False),
        (utterance("0", 0, 9), False), (utterance("z", 0, 9, channel=1), False),
    ]  # fmt: skip
    shared = shares_audio(Utterances.convert([u for u, _ in spoken]), Utterances.convert(trained))
    assert shared.tolist() == [expected for _, expected in spoken]
    trained = [utterance("a", 0, 1, speaker=x, text=f"to {x}") for x in ("anna", "bob", "")]
    tested = [utterance("b", 0, 1, speaker=x, text="to bob") for x in ("anna", "anna", "carl", "")]
    shared = in_training(Utterances.convert(tested), Utterances.convert(trained))
    assert shared == {"utterances": 0, "speakers": 1, "sentences": 4}


def write(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps({"text": "a bad cab", **line}) + "\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of three test utterances one is a copy, one begins 0.01 s later; of their two speakers, one trains."""
    for number in range(4):
        soundfile.write(tmp_path / f"{number}.wav", 0.3 * np.sin(np.arange(16000) / (number + 3)), 16000)
    shutil.copy(tmp_path / "0.wav", tmp_path / "copy.wav")
    write(tmp_path / "train.jsonl", *({"audio_filepath": f"{x}.wav", "speaker": "anna"} for x in (0, 1)))
    write(tmp_path / "dev.jsonl", {"audio_filepath": "2.wav", "speaker": "bob", "text": "a cab"})
    write(
        tmp_path / "test.jsonl",
        {"audio_filepath": "copy.wav", "speaker": "anna"}, {"audio_filepath": "3.wav", "speaker": "carl"},
        {"audio_filepath": "1.wav", "offset": 0.01, "speaker": "anna", "text": "dead"},
    )  # fmt: skip
    return tmp_path


def test_prepare_says_what_is_in_training(
    folder: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.WARNING):
        prepare(compose("data=manifest", f"data.root={folder}", "gpus=0"))
    assert caplog.messages == [
        "2 of 3 utterances of test are also in the training set",
        "1 of 2 speakers of test are in the training set: intervals are for these speakers",
    ]
    assert "2 of 3 sentences of test are also in the training set" in capsys.readouterr().out


def test_a_verdict_says_that_speakers_were_trained_on() -> None:
    declared = {"factor": "rnn", "baseline": "rnn=gru"}
    content = SetContent(speakers=20, utterances=100, in_training={"utterances": 2, "speakers": 20, "sentences": 0})
    data = DataRecord(sets={"test": content})
    runs = [
        replace(record(f"rnn={x}", seed, 0.3, ablation=declared), data=data)
        for x in ("gru", "lstm")
        for seed in (0, 1, 2)
    ]
    comparison = compare(records(runs), Options(), "title")
    assert "20 of 20 speakers of test are in training" in comparison.verdicts[0].sentence
    warning = "20 of 20 speakers of test are in training: intervals are for these speakers, not for new ones"
    assert warning in comparison.warnings


def test_complaints_have_a_cause_and_a_way_out(folder: Path) -> None:
    for options, texts, told in (
        ({}, ["A cab.", "a bee.", "a"],
         "2 of 3 utterances of train contain '.': data.normalise=punctuation removes it, alphabet=derived learns it"),
        ({}, ["ñu añ", "a"], "1 of 2 utterances of train contain 'u' 'ñ': alphabet=derived learns them"),
        ({"normalise": "none"}, ["A", "a"],
         "1 of 2 utterances of train contain 'A': data.normalise=case makes it lower case, alphabet=derived learns it"),
        ({"normalise": "punctuation"}, ["A cab.", "a, bee"], ""),
        ({}, ["", "a"], "1 of 2 utterances of train: empty transcript"),
    ):  # fmt: skip
        write(folder / "train.jsonl", *({"audio_filepath": "0.wav", "text": x, "id": x or "0"} for x in texts))
        corpus = component("data", "manifest", root=str(folder), **options)
        found = complaints(judge(corpus, LETTERS, ["train"]), corpus, LETTERS)
        assert [cause.text for cause in found] == [told] * bool(told)


def test_silence_without_a_text_may_be_tested_and_not_trained_on(folder: Path) -> None:
    soundfile.write(folder / "silence.wav", np.zeros(16000), 16000)
    for name in ("train", "test"):
        write(folder / f"{name}.jsonl", {"audio_filepath": "silence.wav", "text": ""},
              {"audio_filepath": "silence.wav", "id": "spoken"})  # fmt: skip
    corpus = component("data", "manifest", root=str(folder))
    corpus.thorough = True
    judged = judge(corpus, LETTERS)
    reasons = {name: [u.fault.partition(":")[0] for u in judged[name]] for name in ("train", "test")}
    assert reasons == {"train": ["silent audio"] * 2, "test": ["", "silent audio"]}
