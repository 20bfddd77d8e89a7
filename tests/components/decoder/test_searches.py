"""The searches against CTC's definition on cases small enough to go through every path, against pyctcdecode's beams,
and each against the others.
"""

import functools
import itertools
import math
import zlib
from collections.abc import Callable
from typing import Any

import kenlm
import numpy as np
import pyctcdecode
import pytest
import torch

from asr_ablations.components.decoder.prefix_search import PrefixSearch
from asr_ablations.data.alphabet import Alphabet, Letters
from asr_ablations.language_models.model import SPACE
from tests.helpers.small_models import LETTERS, bigrams, decoder, spelled

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
