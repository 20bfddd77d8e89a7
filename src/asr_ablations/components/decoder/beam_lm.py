"""Prefix beam search with an n-gram model of words (Ambroszczyk2019 §1.5, §2.2)."""

from typing import Any

import kenlm

from asr_ablations.components.decoder.beam import LanguageModelBeam
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.model import NATS, load_words
from asr_ablations.tools.checks import number


class BeamLM(LanguageModelBeam):
    """Decodes log_probs (B, T, V) in nats and lengths (B,) by maximising log P_ctc + α log P_lm + β · words.

    - lm: ARPA file, KenLM binary, or a folder written by src/lm.py
    - alpha, beta: the weights α and β
    - unknown: penalty in nats that is added to log P_lm of a word that is not in the model
    - all other parameters: the same as in Beam

    Raises UsageError for values out of range, or if the model is missing, is damaged or does not fit the alphabet.
    """

    def __init__(self, alphabet: Alphabet, *, lm: str | None, unknown: float, **search: Any) -> None:
        super().__init__(alphabet, **search)
        self.unknown = number("decoder.unknown", unknown)
        self.model = load_words(lm, alphabet)
        self.files = {"lm": self.model.file}
        self.search = self.build_search(Fusion(self))


class Fusion:
    """Scores words with the language model of a decoder, through the interface of pyctcdecode's AbstractLanguageModel.

    pyctcdecode's own LanguageModel is not used, because it has an effect even if α = β = 0. It adds β and the penalty
    for unknown words to transcripts that end in a space, and does not multiply the penalty for unfinished words by α.
    """

    def __init__(self, decoder: BeamLM) -> None:
        self.decoder, self.model = decoder, decoder.model

    @property
    def order(self) -> int:
        return int(self.model.ngrams.order)

    def get_start_state(self) -> "kenlm.State":
        state = kenlm.State()
        self.model.ngrams.BeginSentenceWrite(state)
        return state

    def score_partial_token(self, partial_token: str) -> float:
        """Return the score of an unfinished word: 0 if a word in the model starts with it, and otherwise a penalty."""
        return 0.0 if self.model.begins(partial_token) else self.decoder.alpha * self.decoder.unknown

    def score(self, prev_state: "kenlm.State", word: str, is_last_word: bool = False) -> tuple[float, "kenlm.State"]:
        """Return α log P_lm + β for a word, and the new state. A last word's P_lm includes the end of the sentence."""
        score, words, state = 0.0, 0, prev_state
        if word:
            state, words = kenlm.State(), 1
            score = self.model.ngrams.BaseScore(prev_state, word, state) * NATS
            if word not in self.model.ngrams:
                score += self.decoder.unknown
        if is_last_word:
            score += self.model.ngrams.BaseScore(state, "</s>", kenlm.State()) * NATS
        return self.decoder.alpha * score + self.decoder.beta * words, state
