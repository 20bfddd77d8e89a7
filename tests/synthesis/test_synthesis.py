"""What the built-in corpus is made of: speech, sentences and speakers."""

import signal
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import log2
from pathlib import Path

import numpy as np
import pytest

from asr_ablations import SAMPLE_RATE
from asr_ablations.config.compose import alphabets
from asr_ablations.synthesis import speakers
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
from asr_ablations.synthesis.speakers import SPLITS
from asr_ablations.tools.files import CONF

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
