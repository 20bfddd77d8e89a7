"""The search for word pieces, and in place of pyctcdecode: the same beams and scores as pyctcdecode's."""

import math
import zlib
from typing import Any

import numpy as np
import pytest
from pyctcdecode import Alphabet, BeamSearchDecoderCTC

from asr_ablations.components.decoder.prefix_search import PrefixSearch

LETTERS, PIECES = [" ", "a", "b", "c", "'"], ["▁a", "▁b", "c", "d", "ab"]


class Bigrams:
    """A language model whose scores are numbers from a hash."""

    order = 2

    def get_start_state(self) -> str:
        return "<s>"

    def score(self, prev_state: str, word: str, is_last_word: bool = False) -> tuple[float, str]:
        total, state = (hashed(prev_state, word), word) if word else (0.0, prev_state)
        return total + (hashed(state, "</s>") if is_last_word else 0.0), state

    def score_partial_token(self, partial_token: str) -> float:
        return -1.5 if len(partial_token) > 3 else 0.0


def hashed(before: str, word: str) -> float:
    return -(zlib.crc32(f"{before} {word}".encode()) % 700) / 100


def beams(search: Any, log_probs: np.ndarray, width: int, prune_beams: float, prune_symbols: float) -> dict[str, Any]:
    limits = {"beam_width": width, "beam_prune_logp": -prune_beams, "token_min_logp": -prune_symbols}
    found = search.decode_beams(log_probs, prune_history=False, **limits)
    return {text: (log_p, score) for text, _, _, log_p, score in found}


@pytest.mark.parametrize("model", [None, Bigrams()], ids=["alone", "model"])
@pytest.mark.parametrize("units", [LETTERS, PIECES], ids=["letters", "pieces"])
def test_the_beams_are_pyctcdecodes(units: list[str], model: Bigrams | None) -> None:
    rng = np.random.default_rng(0)
    theirs = BeamSearchDecoderCTC(Alphabet(["", *units], units is PIECES), model)  # type: ignore[arg-type]
    ours = PrefixSearch(units, units is LETTERS, model)
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
