"""The contract of decoders; the searches against CTC's definition, against pyctcdecode's beams, and each other."""

import functools
import itertools
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kenlm
import numpy as np
import pyctcdecode
import pytest
import torch

from asr_ablations.components.decoder.prefix_search import PrefixSearch
from asr_ablations.data.alphabet import Alphabet, Letters
from asr_ablations.language_models.model import SPACE
from asr_verdicts.errors import UsageError
from tests.helpers.small_models import LETTERS, bigrams, decoder, models, spelled
from tests.helpers.support import described, group_options, shared_data

NEVER = float("-inf")
WIDE = {"beam_width": 5000, "prune_beams": math.inf}
NO_PRUNING = {**WIDE, "prune_symbols": math.inf}
WEIGHTS = [(0.0, 0.0), (0.7, 0.0), (1.5, -1.0), (0.4, 2.0)]


def exhaustive(row: np.ndarray, characters: str, separation: str = "") -> dict[str, float]:
    """log P of every text, in nats, summed over all V**T paths of (T, V) log-probabilities (Graves et al. 2006).

    Repeats are merged, blanks (0) dropped, then separations; one space between words, none at the ends.
    """
    found: dict[str, float] = {}
    for path in itertools.product(range(row.shape[1]), repeat=len(row)):
        merged = [symbol for symbol, _ in itertools.groupby(path)]
        text = " ".join("".join(characters[s - 1] for s in merged if s).replace(separation, "").split())
        p = float(sum(row[t, symbol] for t, symbol in enumerate(path)))
        found[text] = float(np.logaddexp(found.get(text, NEVER), p))
    return found


def best(found: dict[str, float], extra: Callable[[str], float] = lambda text: 0.0) -> str:
    return max(found, key=lambda text: found[text] + extra(text))


def drawn(seed: int, frames: int, outputs: int = LETTERS.outputs, sharp: float = 1.0) -> np.ndarray:
    """Log-probabilities (T, V) of a model that is not sure at all."""
    logits = torch.randn(frames, outputs, generator=torch.Generator().manual_seed(seed)).double() * sharp
    return logits.log_softmax(-1).numpy()


def read(decode, row: np.ndarray) -> str:
    (text,) = decode(torch.from_numpy(row)[None], torch.tensor([len(row)]))
    return text


@functools.cache
def drawn_texts(seed: int, frames: int) -> tuple[np.ndarray, dict[str, float]]:
    """Log-probabilities, and the log P of every text; several tests ask for the same."""
    row = drawn(seed, frames)
    return row, exhaustive(row, LETTERS.characters)


def model_score(text: str, words: list[str], file) -> float:
    """log P_lm in nats as KenLM's own score() has it."""
    return kenlm.Model(str(file)).score(" ".join(words), bos=True, eos=True) * math.log(10)


@pytest.mark.parametrize("name", ["beam", "beam_lm", "beam_charlm", "beam_rescored"])
def test_a_wide_beam_finds_what_exhaustive_search_finds(name: str) -> None:
    weights = {} if name == "beam" else {"alpha": 0.0, "beta": 0.0}
    decode = decoder(name, **NO_PRUNING, **weights)
    for frames, seed in itertools.product((1, 3, 6), range(12)):
        row, texts = drawn_texts(seed, frames)
        assert read(decode, row) == best(texts), (frames, seed)


@pytest.mark.parametrize(("alpha", "beta"), WEIGHTS)
def test_rescoring_maximises_the_formula_over_the_texts_of_the_beam(alpha: float, beta: float) -> None:
    decode = decoder("beam_rescored", alpha=alpha, beta=beta, **NO_PRUNING)
    changed = 0
    for seed in range(8):
        row, result = drawn_texts(seed, 6)
        texts: dict[str, float] = {}
        for text, log_p in result.items():  # a space at an end is none
            plain = " ".join(text.split())
            texts[plain] = float(np.logaddexp(texts.get(plain, NEVER), log_p))
        language = dict(zip(texts, decode.model.scores(list(texts)), strict=True))
        scores = {text: p + alpha * language[text] + beta * len(text.split()) for text, p in texts.items()}
        assert read(decode, row) == max(scores, key=scores.__getitem__)
        changed += max(scores, key=scores.__getitem__) != max(texts, key=texts.__getitem__)
    assert bool(changed) == bool(alpha or beta)


@pytest.mark.parametrize(("alpha", "beta"), WEIGHTS)
def test_a_wide_beam_maximises_the_thesis_formula_over_words(alpha: float, beta: float) -> None:
    """Q(y) = log P_ctc + α log P_lm + β words (Ambroszczyk2019 §1.5), P_lm by KenLM's score."""
    file = bigrams("searches.arpa", spelled(LETTERS, 6))
    decode = decoder("beam_lm", lm=str(file), alpha=alpha, beta=beta, **NO_PRUNING)
    for seed in range(8):
        row, result = drawn_texts(seed, 6)
        expected = best(result, lambda text: alpha * model_score(text, text.split(), file) + beta * len(text.split()))
        assert read(decode, row) == expected, seed


@pytest.mark.parametrize(("alpha", "beta"), WEIGHTS)
def test_a_wide_beam_maximises_the_same_over_characters(alpha: float, beta: float) -> None:
    file = bigrams("searches-characters.arpa", [SPACE, "a", "b"])
    decode = decoder("beam_charlm", lm=str(file), alpha=alpha, beta=beta, **NO_PRUNING)
    for seed in range(8):
        row, result = drawn_texts(seed, 6)

        def extra(text: str) -> float:
            characters = [SPACE if c == " " else c for c in text]
            return alpha * model_score(text, characters, file) + beta * len(text.split())

        assert read(decode, row) == best(result, extra), seed


def test_an_unknown_word_costs_and_its_weight_is_alpha() -> None:
    file = bigrams("known.arpa", ["ab"])
    row = np.log([[0.02, 0.93, 0.03, 0.02], [0.02, 0.5, 0.46, 0.02]])  # "a" or, less likely, "ab"
    assert read(decoder("beam_lm", lm=str(file), alpha=0.0, beta=0.0), row) == "a"
    assert read(decoder("beam_lm", lm=str(file), alpha=0.5, beta=0.0, unknown=-10.0), row) == "ab"


def test_a_lexicon_admits_its_words_only_and_finds_the_best_of_them() -> None:
    """Exhaustively: the most probable of the texts that consist of listed words."""
    words = ["ab", "ba", "a", "bbab"]
    file = bigrams("unused.arpa", words).with_suffix(".txt")
    file.write_text("\n".join(words), encoding="utf-8")
    decode = decoder("lexicon", words=str(file), **WIDE)
    for frames, seed in itertools.product((1, 3, 6), range(12)):
        row, texts = drawn_texts(seed, frames)
        listed = {text: p for text, p in texts.items() if set(text.split()) <= set(words) and p > NEVER}
        assert read(decode, row) == best(listed), (frames, seed)


@pytest.mark.parametrize("name", ["beam", "beam_lm", "beam_charlm", "lexicon"])
@pytest.mark.parametrize("alphabet", [Letters("ab _", "_"), Letters("_ba ", "_")], ids=["last", "first"])
def test_a_separation_is_in_no_text(name: str, alphabet: Alphabet) -> None:
    """Exhaustively: the text whose paths, the sign dropped from their labels, have the highest sum (Baunsgaard2020
    §4.4.3), and with a model that with the highest Q of Ambroszczyk2019 §1.5.
    """
    words = ["aa", "ab", "bab", "b"]
    file = bigrams(f"signed-{name}.arpa", [SPACE, "a", "b"] if name == "beam_charlm" else spelled(LETTERS, 5))
    listed = file.with_suffix(".txt")
    listed.write_text("\n".join(words), encoding="utf-8")
    changes = {
        "beam": NO_PRUNING,
        "beam_lm": {**NO_PRUNING, "lm": str(file), "alpha": 0.7, "beta": 0.4},
        "beam_charlm": {**NO_PRUNING, "lm": str(file), "alpha": 0.7, "beta": 0.4},
        "lexicon": {**WIDE, "words": str(listed)},
    }
    decode = decoder(name, alphabet, **changes[name])

    def extra(text: str) -> float:
        if "lm" not in changes[name]:
            return 0.0
        units = [SPACE if c == " " else c for c in text] if name == "beam_charlm" else text.split()
        return 0.7 * model_score(text, units, file) + 0.4 * len(text.split())

    for seed in range(4):
        row = drawn(seed, 5, alphabet.outputs)
        texts = exhaustive(row, alphabet.characters, alphabet.separation)
        if name == "lexicon":
            texts = {text: p for text, p in texts.items() if set(text.split()) <= set(words)}
        assert read(decode, row) == best(texts, extra), seed


class Bigrams:
    """A language model whose scores are numbers from a hash."""

    order = 2

    def get_start_state(self) -> str:
        return "<s>"

    def score(self, prev_state: str, word: str, is_last_word: bool = False) -> tuple[float, str]:
        def hashed(before: str, word: str) -> float:
            return -(zlib.crc32(f"{before} {word}".encode()) % 700) / 100

        total, state = (hashed(prev_state, word), word) if word else (0.0, prev_state)
        return total + (hashed(state, "</s>") if is_last_word else 0.0), state

    def score_partial_token(self, partial_token: str) -> float:
        return -1.5 if len(partial_token) > 3 else 0.0


def beams(search: Any, log_probs: np.ndarray, width: int, prune_beams: float, prune_symbols: float) -> dict[str, Any]:
    limits = {"beam_width": width, "beam_prune_logp": -prune_beams, "token_min_logp": -prune_symbols}
    found = search.decode_beams(log_probs, prune_history=False, **limits)
    return {text: (log_p, score) for text, _, _, log_p, score in found}


@pytest.mark.parametrize("model", [None, Bigrams()], ids=["alone", "model"])
@pytest.mark.parametrize("pieces", [False, True], ids=["letters", "pieces"])
def test_the_beams_are_pyctcdecodes(pieces: bool, model: Bigrams | None) -> None:
    rng, units = np.random.default_rng(0), ["▁a", "▁b", "c", "d", "ab"] if pieces else [" ", "a", "b", "c", "'"]
    theirs = pyctcdecode.BeamSearchDecoderCTC(pyctcdecode.Alphabet(["", *units], pieces), model)  # type: ignore[arg-type]
    ours = PrefixSearch(units, not pieces, model)
    for _ in range(60):
        log_probs = np.log(rng.dirichlet(np.full(6, 0.3), size=int(rng.integers(1, 25))) + 1e-12)
        limits = int(rng.choice([1, 5, 50])), float(rng.choice([2, 10, math.inf])), float(rng.choice([3, math.inf]))
        expected, result = beams(theirs, log_probs, *limits), beams(ours, log_probs, *limits)
        assert next(iter(result)) == next(iter(expected))
        assert result.keys() == expected.keys()
        for text, scores in expected.items():
            assert result[text] == pytest.approx(scores, abs=1e-9)


def test_a_likely_space_alone_does_not_split_a_word_and_a_zero_is_no_error() -> None:
    """In pyctcdecode 0.5 a piece ▁ splits the best word at the next piece of the same frame: "hel lo"."""
    log_probs = np.log([[0.01, 0.97, 0.01, 0.01], [0.01, 0.01, 0.08, 0.90]])
    result = beams(PrefixSearch(["▁hel", "▁", "lo"], False), log_probs, 10, 10, 5)
    assert next(iter(result)) == "hello"
    assert result["hello"][0] == pytest.approx(math.log(0.97 * 0.9))
    with np.errstate(divide="ignore"):
        log_probs = np.log([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    assert beams(PrefixSearch(["▁a", "▁", "b"], False), log_probs, 10, math.inf, math.inf)["ab"][0] == math.log(0.5)


every_variant = pytest.mark.parametrize("name", group_options("decoder"))


def certain(path: str) -> torch.Tensor:
    """Log-probabilities (1, T, V) of a model sure of one symbol a frame; _ is the blank."""
    symbols = torch.tensor([("_" + LETTERS.characters).index(c) for c in path], dtype=torch.long)
    return torch.nn.functional.one_hot(symbols, LETTERS.outputs).float().mul(20).log_softmax(dim=-1)[None]


@every_variant
def test_repeats_merge_blanks_vanish_and_frames_past_the_length_are_not_read(name: str) -> None:
    decode = decoder(name)
    for path, length, text in (
        ("aabbb", 5, "ab"),  # repeats are one
        ("a_a", 3, "aa"),  # a blank tells two apart
        ("__a__b__", 8, "ab"), ("a__a_ab", 7, "aaab"), ("_____", 5, ""), ("a b", 3, "a b"),
        (" a _ b ", 7, "a b"),  # one space between words, none at the ends
        ("abaabb", 0, ""), ("abaabb", 1, "a"), ("abaabb", 4, "aba"),
    ):  # fmt: skip
        assert decode(certain(path), torch.tensor([length])) == [text]


@every_variant
def test_alone_as_in_a_batch(name: str) -> None:
    decode = decoder(name)
    log_probs = torch.randn(6, 12, LETTERS.outputs, generator=torch.Generator().manual_seed(1)).mul(3).log_softmax(-1)
    lengths = torch.tensor([12, 0, 5, 1, 12, 7])
    alone = [decode(log_probs[i : i + 1, :n], lengths[i : i + 1])[0] for i, n in enumerate(lengths.tolist())]
    assert decode(log_probs, lengths) == alone
    assert alone[1] == ""
    assert len(set(alone)) > 3
    assert decode(torch.zeros(2, 0, LETTERS.outputs), torch.tensor([0, 0])) == ["", ""]


@every_variant
def test_a_wrong_value_is_named_with_what_was_expected(name: str) -> None:
    wrong = {
        "beam_width": ([0, 2.5, True, "wide", 10**9], "a whole number from 1 to 65536"),
        "prune_beams": ([0, float("nan"), "a"], "a number above 0"), "prune_symbols": ([0], "a number above 0"),
        "alpha": ([float("inf"), "a", True], "a number"), "beta": ([float("-inf")], "a number"),
        "unknown": ([float("nan")], "a number"),
    }  # fmt: skip
    for key in wrong.keys() & described("decoder", name).keys():
        values, in_range = wrong[key]
        for value in [*values, None]:
            expected = "a number, such as " if value is True or value != value else in_range  # the config refuses these
            with pytest.raises(UsageError, match=f"decoder.{key}={value}: expected {expected}") as message:
                decoder(name, **{key: value})
            assert "\n" not in str(message.value)


def refused(name: str, alphabet: Alphabet, **changes: Any) -> str:
    with pytest.raises(UsageError) as message:
        decoder(name, alphabet, **changes)
    assert "\n" not in str(message.value)
    return str(message.value)


ENGLISH = Letters("abcdefghijklmnopqrstuvwxyz '")


@pytest.mark.parametrize("name", ["beam_lm", "beam_charlm"])
def test_a_model_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    assert "decoder.lm is not set" in refused(name, LETTERS, lm=None)
    assert "nowhere.arpa: there is no such file" in refused(name, LETTERS, lm="nowhere.arpa")
    assert "there is no such file" in refused(name, LETTERS, lm=str(tmp_path))  # a folder without a model
    for number, content in enumerate([b"", b"hello\n", b"\\data\\\nngram 1=3\n\n\\1-grams:\n-1\ta\n", bytes(100)]):
        file = tmp_path / f"{number}.arpa"
        file.write_bytes(content)
        message = refused(name, LETTERS, lm=str(file))
        assert f"{number}.arpa:" in message
        assert "KenLM cannot read it" in message or "not an ARPA file" in message or "NUL" in message


def test_a_model_of_other_letters_another_case_or_the_other_unit() -> None:
    upper = str(bigrams("upper.arpa", [word.upper() for word in spelled(LETTERS, 3)]))
    message = refused("beam_lm", ENGLISH, lm=upper)
    assert 'words cannot be spelled with the alphabet "abc' in message
    assert "case or Unicode form differ" in message
    greek = str(bigrams("greek.arpa", ["αβ", "βα", "ab"]))
    message = refused("beam_lm", ENGLISH, lm=greek)
    assert "2 of its 3 words cannot be spelled" in message
    assert "case" not in message
    assert "αβ" in message
    characters = str(bigrams("greek-characters.arpa", ["α", "β"]))
    assert "α β are not in the alphabet" in refused("beam_charlm", ENGLISH, lm=characters)
    characters, words = models(ENGLISH, 1)[1], str(bigrams("longer.arpa", ["ab", "b"]))
    assert "a model of characters; use decoder=beam_charlm" in refused("beam_lm", ENGLISH, lm=characters)
    assert "a model of words; use decoder=beam_lm" in refused("beam_charlm", ENGLISH, lm=words)


def test_a_list_of_words(tmp_path: Path) -> None:
    assert "decoder.words is not set" in refused("lexicon", LETTERS, words=None)
    assert "there is no such file" in refused("lexicon", LETTERS, words="nowhere.txt")
    for content, expected in {
        "": "it contains no words",
        "\n \n": "it contains no words",
        "ab\nabc\n": r"1 of 2 words cannot be spelled with the alphabet 'ab ', for example 'abc'",
        "AB": "cannot be spelled",
    }.items():
        file = tmp_path / "words.txt"
        file.write_text(content, encoding="utf-8")
        assert expected in refused("lexicon", LETTERS, words=str(file))
        assert expected in refused("lexicon", LETTERS, words=str(tmp_path))  # a folder with words.txt
    file.write_bytes(b"\xff\xfe")
    assert "words.txt: it is in UTF-16" in refused("lexicon", LETTERS, words=str(file))


@pytest.mark.parametrize("name", [name for name in group_options("decoder") if name != "greedy"])
def test_a_search_refuses_a_model_with_other_outputs(name: str) -> None:
    for outputs in (LETTERS.outputs - 1, LETTERS.outputs + 1):
        message = rf"a blank and {len(LETTERS.letters)} letters, but the model has {outputs}"
        with pytest.raises(UsageError, match=message):
            decoder(name)(torch.zeros(1, 3, outputs).log_softmax(-1), torch.tensor([3]))
    if name == "lexicon":
        assert "lacks the space" in refused("lexicon", Letters("ab"))


@pytest.mark.parametrize("name", ["greedy", "beam", "beam_charlm", "beam_lm"])
def test_a_real_models_sentence(name: str) -> None:
    """pyctcdecode, tests/sample_data/libri_logits.json; a LibriSpeech 3-gram leaves the sentence as it is."""
    outputs = torch.tensor(json.loads(shared_data("golden/decoder/libri_logits.json").read_text()))
    alphabet = Letters(" abcdefghijklmnopqrstuvwxyz'")
    given = {"lm": str(shared_data("golden/lm/librispeech_3gram_pruned_tiny.arpa"))} if name == "beam_lm" else {}
    log_probs = outputs.double().roll(1, dims=-1).log_softmax(-1)  # their blank is the last output, ours the first
    assert decoder(name, alphabet, longest=1, **given)(log_probs[None], torch.tensor([len(log_probs)])) == [
        "i have a good deal of will you remember and what i have set my mind upon no doubt i shall some day achieve"
    ]


def test_bugs_bunny() -> None:
    """pyctcdecode, tests/test_decoder.py: "bugs" and "bunny" mixed 0.49 to 0.51, then "bunny"."""
    alphabet = Letters(" bgnsuy")

    def certain(path: str) -> np.ndarray:
        return np.eye(alphabet.outputs)[[("_" + alphabet.characters).index(c) for c in path]]

    mixed = 0.49 * certain("bugs__") + 0.51 * certain("bun_ny")
    probabilities = np.vstack([mixed, certain(" "), certain("bun_ny")])
    log_probs = torch.from_numpy(np.log(np.clip(probabilities, 1e-15, 1)))
    file = str(shared_data("golden/decoder/bugs_bunny_kenlm.arpa"))
    for alpha, text in ((0.0, "bunny bunny"), (1.0, "bugs bunny")):
        decode = decoder("beam_lm", alphabet, lm=file, alpha=alpha, beta=1.5)
        assert decode(log_probs[None], torch.tensor([len(log_probs)])) == [text]
