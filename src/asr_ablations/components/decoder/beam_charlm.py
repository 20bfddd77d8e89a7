"""Prefix beam search with an n-gram model of characters (the first attempt in Ambroszczyk2019 §2.2)."""

import heapq
from typing import Any

import kenlm
import numpy as np

from asr_ablations.components.decoder.beam import LanguageModelBeam
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.model import NATS, SPACE, load_characters
from asr_verdicts.errors import UsageError

NEVER = float("-inf")
Prefixes = dict[str, list[float]]
"""For each prefix, log P_ctc in nats of alignments that end in a blank, and of alignments that end in a symbol."""


class BeamCharLM(LanguageModelBeam):
    """Decodes log_probs (B, T, V) in nats and lengths (B,) by maximising log P_ctc + α log P_lm + β · words.

    lm: n-gram model over characters, in which language_models.model.SPACE represents the space. All other
    parameters are passed to LanguageModelBeam.
    """

    def __init__(self, alphabet: Alphabet, *, lm: str | None, **search: Any) -> None:
        super().__init__(alphabet, **search)
        if not alphabet.spells:
            raise UsageError("decoder=beam_charlm: needs an alphabet of letters, but this model outputs word pieces")
        self.letters = alphabet.letters
        self.model = load_characters(lm, alphabet)
        self.files = {"lm": self.model.file}

    def best(self, row: np.ndarray) -> str:
        scores = Scores(self.model.ngrams, self.alpha, self.beta)
        beams = {"": [0.0, NEVER]}
        for frame in row:
            beams = self._prune(self._extend(beams, frame), scores)
        finished: dict[str, float] = {}
        for prefix, score in beams.items():  # "a" and "a " are the same transcript
            finished[prefix.rstrip()] = float(np.logaddexp(finished.get(prefix.rstrip(), NEVER), _total(score)))
        return max(finished, key=lambda text: finished[text] + scores.prefix(text) + scores.end(text))

    def _extend(self, beams: Prefixes, frame: np.ndarray) -> Prefixes:
        """Extend every prefix by every likely symbol of a frame. Leading and repeated spaces add no character."""
        after: Prefixes = {}
        likely = np.flatnonzero(frame >= -self.prune_symbols).tolist() or [int(frame.argmax())]
        for prefix, score in beams.items():
            total, (after_blank, after_symbol) = _total(score), score
            for index in likely:
                p = float(frame[index])
                if index == 0:
                    _add(after, prefix, 0, total + p)
                    continue
                symbol = self.letters[index - 1]
                if symbol == " " and (not prefix or prefix[-1] == " "):
                    _add(after, prefix, 1, total + p)
                elif prefix and symbol == prefix[-1]:
                    _add(after, prefix, 1, after_symbol + p)
                    _add(after, prefix + symbol, 1, after_blank + p)
                else:
                    _add(after, prefix + symbol, 1, total + p)
        return {prefix: values for prefix, values in after.items() if max(values) > NEVER}

    def _prune(self, beams: Prefixes, scores: "Scores") -> Prefixes:
        scored = [(_total(score) + scores.prefix(prefix), prefix) for prefix, score in beams.items()]
        least = max(scored)[0] - self.prune_beams
        survivors = heapq.nlargest(self.beam_width, (pair for pair in scored if pair[0] >= least))
        return {prefix: beams[prefix] for _, prefix in survivors}


def _total(score: list[float]) -> float:
    return float(np.logaddexp(score[0], score[1]))


def _add(after: Prefixes, prefix: str, ending: int, p: float) -> None:
    values = after.setdefault(prefix, [NEVER, NEVER])
    values[ending] = float(np.logaddexp(values[ending], p))


class Scores:
    """Scores prefixes by α log P_lm + β · words, starting from the cached score of the prefix one letter shorter."""

    def __init__(self, ngrams: "kenlm.Model", alpha: float, beta: float) -> None:
        self.ngrams, self.alpha, self.beta = ngrams, alpha, beta
        start = kenlm.State()
        ngrams.BeginSentenceWrite(start)
        self.cache: dict[str, tuple[float, kenlm.State]] = {"": (0.0, start)}

    def prefix(self, prefix: str) -> float:
        """Return the score of a prefix, in which an unfinished last word counts as a word."""
        return self._look_up(prefix)[0]

    def end(self, prefix: str) -> float:
        """Return the score that is added if the sentence ends after this prefix."""
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
