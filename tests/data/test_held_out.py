"""Held-out speech that is in training, how complaints are grouped, and data.subset: a part of the training set."""

import json
import logging
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.commands.prepare_corpus import prepare
from asr_ablations.data.alphabet import Letters
from asr_ablations.data.description import fingerprint, in_training, shares_audio
from asr_ablations.data.subset import Subset
from asr_ablations.data.utterance_selection import complaints, judge
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.language_models.text import transcripts
from asr_ablations.runs.identity import identity
from asr_verdicts.comparison import compare
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.record import DataRecord, SetContent
from tests.helpers.invented_records import record, records
from tests.helpers.support import component, compose, tiny_overrides

LETTERS = Letters("abcdefgh ")


def test_shared_audio_speakers_and_sentences_are_counted() -> None:
    def invented(content: str, begin: float, end: float, **more: Any) -> Utterance:
        """Of a file whose name says nothing of its content."""
        return Utterance("u", **{"speaker": "", "text": "", **more}, audio=Path(f"/{begin}"), offset=begin,
                         duration=end - begin, content=content)  # fmt: skip

    trained = [
        invented("a", 0, 2), invented("a", 4, 60), invented("a", 5, 6), invented("b", 3, 4, channel=0),
        invented("c", 0, 1.5),
    ]  # fmt: skip
    spoken = [
        (invented("a", 0, 2), True), (invented("a", 1.9, 2.5), True),
        (invented("a", 2, 4), False), (invented("a", 1.97, 4.03), False), (invented("a", 50, 51), True),
        (invented("a", 0.5, 0.52), True), (invented("a", 60, 61), False), (invented("d", 0, 2), False),
        (invented("b", 3, 4, channel=1), False), (invented("b", 3, 4, channel=0), True),
        (invented("b", 3, 4), True), (invented("a", 0, 2, channel=1), True), (invented("b", 0, 3), False),
        (invented("0", 0, 9), False), (invented("z", 0, 9, channel=1), False),
    ]  # fmt: skip
    shared = shares_audio(Utterances.convert([u for u, _ in spoken]), Utterances.convert(trained))
    assert shared.tolist() == [expected for _, expected in spoken]
    trained = [invented("a", 0, 1, speaker=x, text=f"to {x}") for x in ("anna", "bob", "")]
    tested = [invented("b", 0, 1, speaker=x, text="to bob") for x in ("anna", "anna", "carl", "")]
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


def utterance(id_: str, speaker: str, duration: float, text: str = "a", **more: Any) -> Utterance:
    return Utterance(id_, speaker, Path(f"{id_}.flac"), 0.0, duration, text, **more)


def speech() -> list[Utterance]:
    """15 speakers with 20 to 60 utterances of 1 to 16 seconds, 1.2 hours or more."""
    rng = np.random.default_rng(7)
    counts = rng.integers(20, 60, 15)
    return [
        utterance(f"{speaker}-{i}", f"s{speaker}", float(rng.uniform(1, 16)))
        for speaker, count in enumerate(counts)
        for i in range(count)
    ]


def draw(utterances: list[Utterance], hours: float, seed: int = 0, max_seconds: float | None = None) -> list[Utterance]:
    return list(Subset({"hours": hours, "seed": seed}).draw(Utterances.convert(utterances), max_seconds))


@pytest.mark.parametrize("seed", range(5))
def test_fewer_hours_are_contained_in_more_and_end_within_an_utterance(seed: int) -> None:
    whole = speech()
    sizes, smaller = Counter(u.speaker for u in whole), set[str]()
    for hours in (0.01, 0.1, 0.3, 1.0):
        drawn = draw(whole, hours, seed)
        ids = {u.id for u in drawn}
        assert smaller < ids
        added = [u.duration for u in drawn if u.id not in smaller]
        assert hours <= sum(u.duration for u in drawn) / 3600 < hours + max(added) / 3600
        cut = [speaker for speaker, count in Counter(u.speaker for u in drawn).items() if count < sizes[speaker]]
        assert len(cut) <= 1, "all other speakers are whole"
        assert [u for u in whole if u.id in ids] == drawn, "in the order of the corpus"
        smaller = ids


def test_seeds_draw_other_speakers_and_the_order_of_a_list_draws_none() -> None:
    whole = speech()
    first = {seed: draw(whole, 0.01, seed)[0].speaker for seed in range(40)}
    assert len(set(first.values())) > 10
    shuffled = [whole[i] for i in np.random.default_rng(0).permutation(len(whole))]
    assert {u.id for u in draw(shuffled, 0.3)} == {u.id for u in draw(whole, 0.3)}


def test_the_last_speaker_is_cut_at_random_and_without_speakers_the_units_are_drawn() -> None:
    """A corpus of one speaker would otherwise be cut to its first chapter."""
    alone = [utterance(f"{i:03d}", "s", 36.0) for i in range(100)]
    places = [int(u.id) for u in draw(alone, 0.3)]
    assert len(places) == 30
    assert 30 < np.mean(places) < 70
    files = [utterance(f"{file}-{i}", "", 36.0, unit=f"file {file}") for i in range(5) for file in range(6)]
    assert len({u.unit for u in draw(files, 0.1)}) == 2
    alone = [utterance(f"{i}", "", 36.0) for i in range(20)]
    assert len(draw(alone, 0.1)) == 10


def test_what_no_model_can_use_does_not_count() -> None:
    sound = [utterance(f"a{i}", "a", 9.0) for i in range(8)]
    faulty = [utterance(f"f{i}", "a", 9.0, fault="missing file: x") for i in range(3)]
    others = [utterance("empty", "a", 9.0, ""), utterance("long", "a", 99.0)]
    drawn = draw([*faulty, *sound, *others], 72 / 3600, max_seconds=10)
    assert drawn == [*faulty, *sound], "faults are kept: they stop the run, or are listed"
    with pytest.raises(UsageError, match=r"^data.subset.hours=0.0201: expected at most 0.02, the hours of usable"):
        draw([*faulty, *sound, *others], 0.0201, max_seconds=10)
    with pytest.raises(UsageError, match="expected at most 0, "):
        draw(faulty, 1)


def corpus(root: Path, subset: dict[str, Any] | None, **more: Any) -> Any:
    roles = {"train": ["train"], "validation": ["dev"], "test": ["test"]}
    return component("data", "librispeech", root=str(root), subset=subset, **roles, **more)


def test_only_the_training_set_changes_and_everything_is_learned_from_it(tiny_corpus: Path) -> None:
    whole, part = corpus(tiny_corpus, None), corpus(tiny_corpus, {"hours": 1e-6, "seed": 0})
    (only,) = part.read_set("train")
    assert only in list(whole.read_set("train"))
    assert [list(part.read_set(name)) for name in ("dev", "test")] == [
        list(whole.read_set(name)) for name in ("dev", "test")
    ]
    assert transcripts(part, "train") == [only.text]
    letters = component("alphabet", "derived")(part).letters
    assert set(letters) == {" ", *only.text}
    seconds = sum(u.duration for u in whole.read_set("train"))
    everything = corpus(tiny_corpus, {"hours": (seconds - 0.001) / 3600, "seed": 3})
    assert list(everything.read_set("train")) == list(whole.read_set("train"))
    assert fingerprint(everything) == fingerprint(whole) != fingerprint(part)


def test_a_fault_outside_the_subset_still_stops(tiny_corpus: Path, tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        files = sorted((tiny_corpus / split).rglob("*.flac"))
        lines = [{"audio_filepath": str(file), "text": "a", "speaker": file.stem.split("-")[0]} for file in files]
        lines += [{"audio_filepath": "missing.flac", "text": "q"}] * (split == "train")
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = component("data", "manifest", root=str(tmp_path), subset={"hours": 1e-6, "seed": 0})
    assert sorted(u.fault.partition(":")[0] for u in manifest.read_set("train")) == ["", "missing file"]
    assert component("alphabet", "derived")(manifest).letters == " a", "a faulty utterance teaches no letter"


def test_hours_and_seed_are_part_of_a_runs_identity(tiny_corpus: Path) -> None:
    def id_of(subset: str) -> str:
        return identity(compose(*tiny_overrides(tiny_corpus), f"data.subset={subset}"))

    assert len({id_of(x) for x in ("null", *(f"{{hours:{h},seed:{s}}}" for h in (1, 10) for s in (0, 1)))}) == 5
    assert id_of("{hours:1.0,seed:0}") == id_of("{seed:0,hours:1}")
