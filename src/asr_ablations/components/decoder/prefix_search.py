"""Prefix beam search with the scores of pyctcdecode 0.5, for word pieces, and for letters without pyctcdecode.

pyctcdecode itself splits the last word of the best prefix if the piece ▁ alone is likely in a frame.
"""

import heapq
import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

WORD_START = "▁"
Prefix = tuple[str, str, str]
"""The finished words, the letters of the unfinished word, and the last output: a unit, or "" for a blank."""
Found = tuple[str, None, None, float, float]
"""A transcript, log P_ctc in nats, and the score with the language model, in the order of pyctcdecode's results."""


class WordModel(Protocol):
    """A language model of words. Scores are in nats, with all weights; states belong to the model."""

    def get_start_state(self) -> Any: ...

    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]: ...

    def score_partial_token(self, partial_token: str) -> float: ...


class PrefixSearch:
    """Finds the best transcripts of log-probabilities (T, 1 + units) in nats, where output 0 is the blank.

    - units: letters with a space, or pieces of words, the first of which begins with ▁
    - spells: whether the units are letters
    - model: adds scores of words; None for a search by log P_ctc alone
    """

    def __init__(self, units: Sequence[str], spells: bool, model: WordModel | None = None) -> None:
        self.symbols, self.spells, self.model = ["", *units], spells, model

    def decode_beams(
        self,
        log_probs: np.ndarray,
        *,
        beam_width: int,
        beam_prune_logp: float,
        token_min_logp: float,
        prune_history: bool = False,
    ) -> list[Found]:
        """Return the prefixes after the last frame, best first. The arguments are pyctcdecode's; see Beam."""
        assert not prune_history
        scores = Scores(self.model)
        beams: dict[Prefix, float] = {("", "", ""): 0.0}
        for frame in log_probs:
            likely = {int(frame.argmax()), *np.flatnonzero(frame >= token_min_logp).tolist()}
            after: dict[Prefix, float] = {}
            for index in likely:
                symbol, p = self.symbols[index], float(frame[index])
                for (text, part, last), score in beams.items():
                    same = symbol in ("", last)
                    key = (text, part, symbol) if same else (*self._extend(text, part, symbol), symbol)
                    after[key] = _add(after.get(key, -math.inf), score + p)
            scored = [(score + scores.prefix(key[0], key[1]), key, score) for key, score in after.items()]
            beams = {key: score for _, key, score in _select(scored, beam_width, beam_prune_logp)}
        finished: dict[str, float] = {}
        for (text, part, _), score in beams.items():
            text = _join(text, part)
            finished[text] = _add(finished.get(text, -math.inf), score)
        ended = [(score + scores.sentence(text), text, score) for text, score in finished.items()]
        best = _select(ended, beam_width, beam_prune_logp)
        return [(text, None, None, score, total) for total, text, score in best]

    def _extend(self, text: str, part: str, symbol: str) -> tuple[str, str]:
        """Return the finished words and the unfinished one after a new symbol."""
        if self.spells:
            return (_join(text, part), "") if symbol == " " else (text, part + symbol)
        if symbol.startswith(WORD_START):
            return _join(text, part), symbol.removeprefix(WORD_START)
        return text, part + symbol


Scored = TypeVar("Scored", bound=tuple[float, Any, float])


def _select(scored: Sequence[Scored], width: int, limit: float) -> list[Scored]:
    """Return the `width` items with the highest totals, best first, but none more than `-limit` below the best."""
    least = max(total for total, _, _ in scored) + limit
    return heapq.nlargest(width, (item for item in scored if item[0] >= least), key=lambda item: item[0])


def _join(text: str, word: str) -> str:
    return f"{text} {word}" if text and word else text or word


def _add(a: float, b: float) -> float:
    """Add two probabilities given in nats."""
    high, low = max(a, b), min(a, b)
    return high + math.log1p(math.exp(low - high)) if low > -math.inf else high


class Scores:
    """Scores by a language model, each computed once; 0 without a model."""

    def __init__(self, model: WordModel | None) -> None:
        self.model = model
        self.texts: dict[str, tuple[float, Any]] = {"": (0.0, model.get_start_state() if model else None)}
        self.parts: dict[str, float] = {"": 0.0}

    def prefix(self, text: str, part: str) -> float:
        """Return the score of finished words and of the letters of an unfinished one."""
        if self.model is None:
            return 0.0
        if part not in self.parts:
            self.parts[part] = self.model.score_partial_token(part)
        return self._look_up(text)[0] + self.parts[part]

    def sentence(self, text: str) -> float:
        """Return the score of a whole sentence, including its end."""
        if self.model is None:
            return 0.0
        score, state = self._look_up(text)
        return score + self.model.score(state, "", is_last_word=True)[0]

    def _look_up(self, text: str) -> tuple[float, Any]:
        assert self.model is not None
        if text not in self.texts:
            before, _, word = text.rpartition(" ")
            total, state = self._look_up(before)
            score, after = self.model.score(state, word)
            self.texts[text] = total + score, after
        return self.texts[text]
