"""pyctcdecode's prefix beam search, set up for our alphabets."""

import numpy as np
from pyctcdecode import Alphabet as SearchAlphabet
from pyctcdecode import BeamSearchDecoderCTC
from pyctcdecode.language_model import AbstractLanguageModel

from asr_ablations.data.alphabet import Alphabet


def prefix_search(alphabet: Alphabet, language_model: AbstractLanguageModel | None = None) -> BeamSearchDecoderCTC:
    """The search over the blank and the letters; pyctcdecode's build_alphabet would take `_` and `|` for blank and
    space.
    """
    return BeamSearchDecoderCTC(SearchAlphabet(["", *alphabet.letters], False), language_model)


def best_text(search: BeamSearchDecoderCTC, row: np.ndarray, width: int, beams: float, symbols: float) -> str:
    """The best text of one utterance, from log-probabilities (T, 1 + letters) in nats.

    In each frame symbols more than `symbols` nats below certainty are pruned (never the best one), then prefixes more
    than `beams` nats behind the best one, then all prefixes but the best `width`.
    """
    if not len(row):
        return ""
    # prune_history, the default of decode(), drops all but one of the prefixes that end in the same words
    beams_left = search.decode_beams(
        row, beam_width=width, beam_prune_logp=-beams, token_min_logp=-symbols, prune_history=False
    )
    text: str = beams_left[0][0]
    return text
