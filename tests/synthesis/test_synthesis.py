"""What the built-in corpus is made of, and its real synthesis at tiny sizes."""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, replace
from itertools import pairwise
from math import log2
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.components.data.librispeech import list_folder
from asr_ablations.components.data.synthetic import add_voices
from asr_ablations.config.compose import alphabets
from asr_ablations.data.description import content_hash
from asr_ablations.synthesis import corpus, speakers
from asr_ablations.synthesis.corpus import SPEAKERS, Request, hash_generator
from asr_ablations.synthesis.languages import codes, load_language
from asr_ablations.synthesis.languages import pl as polish
from asr_ablations.synthesis.sentences import (
    LENGTHS,
    MINIMUM_WORDS,
    SentenceSampler,
    partition,
    prune,
    ranking,
    vocabulary,
)
from asr_ablations.synthesis.speakers import SPLITS, draw_speaker
from asr_ablations.tools.files import CONF
from asr_ablations.tools.machine import one_at_a_time
from tests.helpers.support import compose

LEAST_WORDS = {"en": 3000, "pl": 1500}
FOREIGN = {"en": "", "pl": "qvx'"}
"""Letters of a language's alphabet that stand in none of its words."""


def letters(language: str) -> set[str]:
    """The letters of a language's own words."""
    return set(alphabets(CONF)[language]) - {" ", *FOREIGN.get(language, "")}


def test_speech_depends_on_every_parameter_and_not_on_what_was_spoken_before():
    first = ("the old man walked home", "en-us+m3", 160, 50, 50)
    alone = speakers.synthesize(*first)
    for text, voice in [("seven apples", "en-gb-scotland+f2"), ("dzień dobry", "pl+klatt4"), ("no", "en-us+m3")]:
        speakers.synthesize(text, voice, 200, 70, 20, 2)
    assert np.array_equal(alone, speakers.synthesize(*first))
    base = {"voice": "en-us+m1", "rate": 150, "pitch": 50, "pitch_range": 50, "word_gap": 0}
    plain = speakers.synthesize("one two three", **base)
    for change in ({"voice": "en+f1"}, {"rate": 200}, {"pitch": 80}, {"pitch_range": 5}, {"word_gap": 5}):
        assert not np.array_equal(plain, speakers.synthesize("one two three", **base | change))


def test_a_signal_while_a_word_is_spoken_ends_it_and_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in what espeak-ng calls would be ignored, and the sound incomplete."""
    taken, read = [], speakers.ctypes.string_at

    def interrupted(*place):
        signal.raise_signal(signal.SIGINT)
        taken.append(place)
        return read(*place)

    monkeypatch.setattr(speakers.ctypes, "string_at", interrupted)
    with pytest.raises(KeyboardInterrupt):
        speakers.synthesize("hello", "en-us", 160, 50, 50)
    assert taken
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_every_voice_of_the_tables_exists():
    # espeak-ng silently uses the plain voice for an unknown variant.
    import espeakng_loader

    available = {path.name for path in (Path(espeakng_loader.get_data_path()) / "voices" / "!v").iterdir()}
    named = speakers.VARIANTS.split()
    assert available.issuperset(named)
    for accent in {accent for code in codes() for kind in load_language(code).accents.values() for accent in kind}:
        assert len(speakers.synthesize("no", accent, 150, 50, 50)) > 0


def test_polish_inflections():
    # forms as in Słownik gramatyczny języka polskiego
    forms = "malować maluję maluje malują malował malowała malowali"
    assert " ".join(polish.verb_forms("malować").values()) == forms
    assert polish.verb_forms("widzieć/widzę/widzi/widzą")["DID_P"] == "widzieli"
    assert polish.verb_forms("płynąć/płynę/płynie/płyną")["DID_F"] == "płynęła"
    assert polish.feminine("matka") == ("matka", "matkę", "matki", "matką")
    forms = "wysoki wysoka wysokie wysokiego wysoką wysokim wysokiej wysokie"
    assert " ".join(polish.adjective_forms("wysoki").values()) == forms
    prepositions = polish.lengthen_prepositions(["w", "wrocławiu", "z", "synem", "z", "stołu", "w", "domu"])
    assert prepositions == ["we", "wrocławiu", "z", "synem", "ze", "stołu", "w", "domu"]


@pytest.mark.parametrize("name", codes())
def test_language(name):
    language, ranked = load_language(name), ranking(name)
    assert len(set(ranked)) == len(ranked) >= LEAST_WORDS.get(name, MINIMUM_WORDS)
    assert set("".join(ranked)) <= letters(name)
    assert all(word.upper().lower() == word for word in ranked)
    parts = {part for productions in language.grammar.values() for _, parts in productions for part in parts}
    assert {part for part in parts if part != part.lower()} <= language.grammar.keys() | language.categories.keys()


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name in codes() for size in (MINIMUM_WORDS, 97, 1500) if size <= len(ranking(name))],
)
def test_vocabulary_has_the_size_and_no_word_that_cannot_be_spoken(name, size):
    chosen = vocabulary(name, size)
    assert len(set(chosen)) == len(chosen) == size
    assert prune(load_language(name), chosen)[1] == set(chosen)


@pytest.mark.parametrize("name", codes())
def test_every_word_is_spoken(name):
    sampler, rng = SentenceSampler(name, min(120, len(ranking(name)))), np.random.default_rng(0)
    spoken = {word for _ in range(15000) for word in sampler.draw(rng).split()}
    assert spoken == set(sampler.vocabulary)


@pytest.mark.parametrize("name", [name for name in codes() if len(ranking(name)) >= 1000])
def test_sentences(name):
    sampler, rng = SentenceSampler(name, 1000), np.random.default_rng(0)
    drawn = [sampler.draw(rng).split() for _ in range(3000)]
    assert all(len(sentence) in LENGTHS for sentence in drawn)
    counts = Counter(word for sentence in drawn for word in sentence)
    total = sum(counts.values())
    # Zipf: a tenth of the words makes most of the text, and few of the words are missing
    assert 0.4 < sum(count for _, count in counts.most_common(100)) / total < 0.9
    assert len(counts) > 900
    # a language model has something to learn: the entropy of a word falls by over a third when the last one is known
    pairs = Counter(pair for sentence in drawn for pair in pairwise(sentence))
    before = Counter(word for sentence in drawn for word in sentence[:-1])
    alone = -sum(count / total * log2(count / total) for count in counts.values())
    known = -sum(n / pairs.total() * log2(n / before[first]) for (first, _), n in pairs.items())
    assert known < 0.65 * alone


def test_sentences_of_splits_are_disjoint():
    sampler, rng = SentenceSampler("en", MINIMUM_WORDS), np.random.default_rng(0)
    said = {split: {sampler.draw(rng, split) for _ in range(200)} for split in SPLITS}
    for split, sentences in said.items():
        assert all(partition(sentence) == split for sentence in sentences)
        assert not any(sentences & said[other] for other in SPLITS if other != split)


@pytest.mark.parametrize("language", codes())
def test_no_variant_of_a_held_out_speaker_trains(language: str) -> None:
    """Whatever its accent: a variant is a timbre."""
    seed = 0

    def heard(split: str, count: int) -> set[str]:
        drawn = (speakers.draw_speaker(seed, language, split, index) for index in range(count))
        return {speaker.voice.partition("+")[2] for speaker in drawn}

    train, dev = heard("train", 160), heard("dev-clean", 11) | heard("dev-other", 11)
    test = heard("test-clean", 40), heard("test-other", 40)
    assert test[0] == test[1] == {*speakers.variants(seed, language, "test")}
    assert train.isdisjoint(dev | test[0])
    assert dev.isdisjoint(test[0])
    assert (len(train), len(dev), len(test[0])) == (36, 11, 40)


def test_training_speakers_cover_both_kinds():
    drawn = [speakers.draw_speaker(0, "en", "train", index) for index in range(40)]
    share = sum(speaker.kind == "other" for speaker in drawn) / len(drawn)
    assert share == pytest.approx(speakers.TRAIN_SHARE_OTHER, abs=0.05)
    assert len({speaker.number for speaker in drawn}) == len(drawn)
    assert drawn[7] == speakers.draw_speaker(0, "en", "train", 7) != speakers.draw_speaker(1, "en", "train", 7)


def test_recording_has_the_requested_signal_to_noise_ratio_and_peak():
    speaker = replace(
        speakers.draw_speaker(0, "en", "test-other", 0), signal_to_noise=10.0, peak=-6.0, direct_to_reverberant=60.0
    )
    rng = np.random.default_rng(0)
    tone = np.sin(np.arange(160000) * 0.5)
    recorded = speakers.record(speaker, tone, rng) / 32768
    assert np.abs(recorded).max() == pytest.approx(10 ** (-6 / 20), rel=1e-3)
    speech = recorded[8000:-8000]
    phase = np.exp(-0.5j * np.arange(len(speech)))
    signal = 2 * np.abs(np.mean(speech * phase)) ** 2  # the tone's power
    # the tone's mean power over the padded recording is a little less than over itself
    assert 10 * np.log10(signal / (np.mean(speech**2) - signal)) == pytest.approx(10, abs=2.5)


def test_noise_has_its_colour_and_reverberation_decays_by_60_db_in_its_time():
    for slope in (0.0, 2.0):
        noise = speakers.coloured_noise(np.random.default_rng(0), 2**17, slope)
        assert np.mean(noise**2) == pytest.approx(1)
        power = np.abs(np.fft.rfft(noise)) ** 2
        frequencies = np.fft.rfftfreq(len(noise), 1 / SAMPLE_RATE)
        octaves = [power[(frequencies >= f) & (frequencies < 2 * f)].mean() for f in (200, 400, 800, 1600, 3200)]
        assert np.diff(10 * np.log10(octaves)) == pytest.approx(-10 * np.log10(2) * slope, abs=0.6)
    impulse = np.zeros(16000)
    impulse[0] = 1
    tail = speakers.reverberate(impulse, 5, 0.5, 6.0)
    assert tail[0] == pytest.approx(1)
    assert 10 * np.log10(np.sum(tail[1:] ** 2)) == pytest.approx(-6, abs=0.1)
    early, late = np.mean(tail[800:2400] ** 2), np.mean(tail[4800:6400] ** 2)  # 0.25 s apart: half the time
    assert 10 * np.log10(early / late) == pytest.approx(30, abs=2)


TINY = Request("en", 100, 3, 0.004, validation_speakers=2, validation_sentences=3, test_speakers=3, test_sentences=2)
SOURCE = Path(corpus.__file__).parents[2]


def file_hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file, by its place in the folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def transcripts(folder: Path) -> list[tuple[str, str]]:
    """The ids and texts of a split."""
    lines = [line for path in sorted(folder.glob("*/*/*.trans.txt")) for line in path.read_text().splitlines()]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def by_speaker(folder: Path) -> dict[str, list[str]]:
    """The texts of each speaker of a split, in their order."""
    texts: dict[str, list[str]] = {}
    for identifier, text in transcripts(folder):
        texts.setdefault(identifier.split("-")[0], []).append(text)
    return texts


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all splits of TINY lie. Splits of other sizes may join them."""
    folder = tmp_path_factory.mktemp("tiny")
    corpus.generate(folder, TINY, SPLITS)
    return folder


@pytest.fixture(scope="module")
def tiny(root: Path) -> dict[str, Path]:
    return {split: TINY.folder(root, split) for split in SPLITS}


def test_arguments_out_of_range(tmp_path: Path) -> None:
    for changes, message in (
        ({"language": "xx"}, f"data.language=xx: expected {', '.join(codes())}"),
        ({"words": 59}, "data.words=59: expected a whole number from 60 to"),
        ({"hours": 0}, "data.hours=0: expected a number above 0"),
        ({"hours": 1e9}, "data.hours=1000000000.0: expected a number above 0"),
        ({"validation_sentences": True}, "data.validation_sentences=True: expected a whole number from 1 to 100000"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            corpus.generate(tmp_path, Request(**{**asdict(TINY), **changes}), SPLITS)
        assert "\n" not in str(error.value)
        assert list(tmp_path.iterdir()) == []


def test_another_generator_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = shutil.copytree(Path(corpus.__file__).parent, tmp_path / "synthesis")
    monkeypatch.setattr(corpus, "__file__", str(package / "corpus.py"))
    names = []
    for change in (None, "sentences.py", "languages/pl.yaml"):
        if change:
            (package / change).write_bytes((package / change).read_bytes() + b"\n")
        hash_generator.cache_clear()
        names.append(TINY.folder(tmp_path, "train"))
    monkeypatch.undo()
    hash_generator.cache_clear()
    assert len(set(names)) == 3
    assert TINY.folder(tmp_path, "train") == names[0]


def test_layout(root: Path, tiny: dict[str, Path]) -> None:
    whole = root / f"en-100words-seed3-{hash_generator()}"
    names = {"train-0.004h", "dev-clean-2x3", "dev-other-2x3", "test-clean-3x2", "test-other-3x2", "vocabulary.txt"}
    assert {path.name for path in whole.iterdir()} == names
    said, people = {}, Counter()
    for split, folder in tiny.items():
        lines = transcripts(folder)
        summary = json.loads((folder / "split.json").read_text())
        assert sorted(identifier for identifier, _ in lines) == sorted(path.stem for path in folder.rglob("*.flac"))
        assert len(lines) == summary["utterances"]
        assert sum(len(text.split()) for _, text in lines) == summary["words"]
        assert len((folder / "SPEAKERS.TXT").read_text().splitlines()) == 1 + summary["speakers"]
        assert all(text == text.upper() for _, text in lines)
        said[split] = {text for _, text in lines}
        people.update({identifier.split("-")[0] for identifier, _ in lines})
        seconds = 0.0
        for identifier, _ in lines:
            speaker, chapter, _ = identifier.split("-")
            info = soundfile.info(folder / speaker / chapter / f"{identifier}.flac")
            assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")
            assert 0.5 < info.duration < 15
            seconds += info.duration
        assert summary["hours"] == pytest.approx(seconds / 3600, abs=1e-5)
        if split == "train":
            assert seconds / 3600 == pytest.approx(0.004, rel=0.3)
        else:
            assert sorted(map(len, by_speaker(folder).values())) == ([3, 3] if "dev" in split else [2, 2, 2])
    assert max(people.values()) == 1
    assert not said["train"] & set.union(*(said[split] for split in SPLITS[1:]))
    words = set((whole / "vocabulary.txt").read_text().split())
    assert len(words) == 100
    assert {word.lower() for text in set.union(*said.values()) for word in text.split()} <= words


def test_what_two_requests_agree_on_is_generated_once(root: Path, tiny: dict[str, Path]) -> None:
    """Another size of the test sets leaves train and the dev sets alone."""
    before = {path: path.stat().st_mtime_ns for folder in tiny.values() for path in folder.rglob("*")}
    larger = replace(TINY, test_speakers=4)
    corpus.generate(root, larger, SPLITS)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    shared = [split for split in SPLITS if larger.folder(root, split) == tiny[split]]
    assert shared == ["train", "dev-clean", "dev-other"]
    hours = replace(TINY, hours=0.008)
    assert [s for s in SPLITS if hours.folder(root, s) == tiny[s]] == list(SPLITS[1:])


def test_a_larger_evaluation_set_contains_the_smaller(root: Path, tiny: dict[str, Path]) -> None:
    """The same speakers, whatever the hours, read the same sentences first, with the same samples."""
    split = "test-clean"
    larger = replace(TINY, hours=7.0, validation_speakers=3, validation_sentences=4, test_speakers=4, test_sentences=3)
    corpus.generate(root, larger, [split])
    small, large = by_speaker(tiny[split]), by_speaker(larger.folder(root, split))
    assert small.keys() < large.keys()
    assert all(large[speaker][: len(texts)] == texts for speaker, texts in small.items())
    assert all(len(large[speaker]) == len(texts) + 1 for speaker, texts in small.items())
    audio = {name: content for name, content in file_hashes(tiny[split]).items() if name.endswith(".flac")}
    assert audio.items() < file_hashes(larger.folder(root, split)).items()


def test_interrupted_run_continues_to_the_same_bytes(
    root: Path, tiny: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, count = corpus.generate_speaker, 0

    def stop_in_the_second_split(job: corpus.SpeakerJob) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        whole(job)

    splits = ["dev-clean", "test-clean"]
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "generate_speaker", stop_in_the_second_split)
        with pytest.raises(KeyboardInterrupt):
            corpus.generate(tmp_path, TINY, splits)
    assert not any(TINY.folder(tmp_path, split).exists() for split in splits)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.flac")}
    assert len(kept) == 2 * 3 + 2
    corpus.generate(tmp_path, TINY, splits)
    for split in splits:
        assert file_hashes(TINY.folder(tmp_path, split)) == file_hashes(tiny[split])
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.flac")}
    assert kept.items() < times.items()
    left = TINY.corpus(tmp_path) / ".dev-clean-2x3" / "records"  # by a run that was killed right before its end
    left.mkdir(parents=True)
    corpus.generate(tmp_path, TINY, splits)
    names = {"dev-clean-2x3", "test-clean-3x2", "vocabulary.txt"}
    assert {path.name for path in TINY.corpus(tmp_path).iterdir()} == names


def test_more_hours_begin_with_the_same_utterances_and_more_speakers(tiny: dict[str, Path], tmp_path: Path) -> None:
    job = corpus.plan(tmp_path, replace(TINY, hours=5.0), "train")[1]
    speaker = speakers.draw_speaker(TINY.seed, "en", job.split, job.index)
    spoken = by_speaker(tiny["train"])[str(speaker.number)]
    assert spoken == [text.upper() for _, (text, _) in zip(spoken, corpus.utterances(job), strict=False)]
    other = corpus.plan(tmp_path, replace(TINY, seed=TINY.seed + 1), "train")[1]
    assert next(corpus.utterances(other))[0].upper() != spoken[0], "another seed is another corpus"
    data = compose().data
    sizes = {name: data[name] for name in asdict(TINY) if name in data and name != "language"}
    for hours, train in [(0.6, 88), (100, 1136)]:
        request = Request(**{**sizes, "language": "en", "seed": 0, "hours": hours})
        jobs = corpus.plan(Path(), request, "train")
        assert len(jobs) == train
        assert sum(job.seconds for job in jobs) == pytest.approx(hours * 3600)
        for split, counts in {"dev": (11, 198), "test": (40, 1000)}.items():
            for kind in ("clean", "other"):
                jobs = corpus.plan(Path(), request, f"{split}-{kind}")
                assert (len(jobs), sum(job.utterances or 0 for job in jobs)) == counts


@pytest.mark.slow
def test_two_runs_at_once_with_many_processes_give_the_same_bytes(
    root: Path, tiny: dict[str, Path], tmp_path: Path
) -> None:
    code = f"""
import pathlib
from asr_ablations.synthesis import corpus
from asr_ablations.synthesis.corpus import Request
corpus.SPEED, corpus.cores = 1, lambda: 2
if __name__ == "__main__":
    corpus.generate(pathlib.Path({str(tmp_path)!r}), {TINY!r}, ["train", "dev-clean"])
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    command, environment = [sys.executable, str(script)], {"PYTHONPATH": str(SOURCE)}
    # As long as the test holds the lock both have to wait, however fast they are.
    with one_at_a_time(tmp_path / f".{TINY.corpus(tmp_path).name}.lock", "the test itself waits"):
        runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        first = [run.stderr.readline() for run in runs if run.stderr]
    assert all(line.startswith("Waiting for another process that is generating") for line in first)
    errors = [run.communicate(timeout=600)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], errors
    assert sum("Generating" in error for error in errors) == 1
    for split in ("train", "dev-clean"):
        assert file_hashes(TINY.folder(tmp_path, split)) == file_hashes(tiny[split])


def test_the_unit_of_an_utterance_is_the_voice_of_its_speaker(tiny: dict[str, Path]) -> None:
    for split, folder in tiny.items():
        listed = add_voices(list_folder(folder), folder / SPEAKERS)
        drawn = [draw_speaker(TINY.seed, TINY.language, split, index) for index in range(30)]
        voices = {str(speaker.number): f"voice {speaker.voice.partition('+')[2]}" for speaker in drawn}
        assert {u.speaker: u.unit for u in listed}.items() <= voices.items()
        assert len({u.unit for u in listed}) == len({u.speaker for u in listed})
    bare = add_voices(list_folder(folder), folder / "no such table")
    assert {u.unit for u in bare} == {""}
    assert content_hash(bare) != content_hash(listed)  # other units give other intervals
