"""Prefix beam search with an n-gram model of characters, the first attempt of Ambroszczyk2019 §2.2."""

import heapq
from typing import Any, NamedTuple

import kenlm
import numpy as np

from asr_ablations.components.decoder.beam import LanguageModelBeam
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.model import NATS, SPACE, load_characters

NEVER = float("-inf")


class Prefix(NamedTuple):
    """log P_ctc of a prefix in nats, separately for alignments that end in a blank and in a symbol."""

    blank: float
    symbol: float

    @property
    def total(self) -> float:
        return float(np.logaddexp(self.blank, self.symbol))


class BeamCharLM(LanguageModelBeam):
    """Decodes log_probs (B, T, V) in nats and lengths (B,) by log P_ctc + α log P_lm(characters) + β words.

    lm: an n-gram model whose words are single characters, with language_models.model.SPACE for the space. Other
    parameters are as in BeamLM.
    """

    def __init__(self, alphabet: Alphabet, *, lm: str | None, **search: Any) -> None:
        super().__init__(alphabet, **search)
        self.letters = alphabet.letters
        self.model = load_characters(lm, alphabet)
        self.files = {"lm": self.model.file}

    def best(self, row: np.ndarray) -> str:
        scores = Scores(self.model.ngrams, self.alpha, self.beta)
        beams = {"": Prefix(0.0, NEVER)}
        for frame in row:
            beams = self._prune(self._extend(beams, frame), scores)
        finished: dict[str, float] = {}
        for prefix, score in beams.items():  # "a" and "a " are the same text
            finished[prefix.rstrip()] = float(np.logaddexp(finished.get(prefix.rstrip(), NEVER), score.total))
        return max(finished, key=lambda text: finished[text] + scores.prefix(text) + scores.end(text))

    def _extend(self, beams: dict[str, Prefix], frame: np.ndarray) -> dict[str, Prefix]:
        """Extend every prefix by every likely symbol of a frame. Leading and repeated spaces add no character."""
        after: dict[str, list[float]] = {}
        likely = np.flatnonzero(frame >= -self.prune_symbols).tolist() or [int(frame.argmax())]
        for prefix, score in beams.items():
            for index in likely:
                p = float(frame[index])
                if index == 0:
                    _add(after, prefix, 0, score.total + p)
                    continue
                symbol = self.letters[index - 1]
                if symbol == " " and (not prefix or prefix[-1] == " "):
                    _add(after, prefix, 1, score.total + p)
                elif prefix and symbol == prefix[-1]:
                    _add(after, prefix, 1, score.symbol + p)
                    _add(after, prefix + symbol, 1, score.blank + p)
                else:
                    _add(after, prefix + symbol, 1, score.total + p)
        return {prefix: Prefix(*values) for prefix, values in after.items() if max(values) > NEVER}

    def _prune(self, beams: dict[str, Prefix], scores: "Scores") -> dict[str, Prefix]:
        scored = [(score.total + scores.prefix(prefix), prefix) for prefix, score in beams.items()]
        least = max(scored)[0] - self.prune_beams
        survivors = heapq.nlargest(self.beam_width, (pair for pair in scored if pair[0] >= least))
        return {prefix: beams[prefix] for _, prefix in survivors}


def _add(after: dict[str, list[float]], prefix: str, ending: int, p: float) -> None:
    values = after.setdefault(prefix, [NEVER, NEVER])
    values[ending] = float(np.logaddexp(values[ending], p))


class Scores:
    """Scores prefixes by α log P_lm + β words, each from the cached score of the prefix without its last character."""

    def __init__(self, ngrams: "kenlm.Model", alpha: float, beta: float) -> None:
        self.ngrams, self.alpha, self.beta = ngrams, alpha, beta
        start = kenlm.State()
        ngrams.BeginSentenceWrite(start)
        self.cache: dict[str, tuple[float, kenlm.State]] = {"": (0.0, start)}

    def prefix(self, prefix: str) -> float:
        """Return the score of a prefix; a word counts from its first letter."""
        return self._look_up(prefix)[0]

    def end(self, prefix: str) -> float:
        """Return the score that the end of the sentence adds after a prefix."""
        score: float = self.ngrams.BaseScore(self._look_up(prefix)[1], "</s>", kenlm.State())
        return self.alpha * NATS * score

    def _look_up(self, prefix: str) -> tuple[float, "kenlm.State"]:
        if prefix not in self.cache:
            before, state = self._look_up(prefix[:-1])
            after = kenlm.State()
            score = self.ngrams.BaseScore(state, SPACE if prefix[-1] == " " else prefix[-1], after)
            begins = prefix[-1] != " " and (len(prefix) == 1 or prefix[-2] == " ")
            self.cache[prefix] = before + self.alpha * NATS * score + self.beta * begins, after
        return self.cache[prefix]
