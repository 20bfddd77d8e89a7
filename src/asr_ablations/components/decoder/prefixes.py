"""pyctcdecode's prefix beam search, set up for our alphabets."""

import numpy as np
from pyctcdecode import Alphabet as SearchAlphabet
from pyctcdecode import BeamSearchDecoderCTC
from pyctcdecode.language_model import AbstractLanguageModel

from asr_ablations.components.decoder.checks import plain
from asr_ablations.data.alphabet import Alphabet


def prefix_search(alphabet: Alphabet, language_model: AbstractLanguageModel | None = None) -> BeamSearchDecoderCTC:
    """The search over outputs 0 (blank), 1, …. Its own build_alphabet would take `_` and `|` for blank and space."""
    return BeamSearchDecoderCTC(SearchAlphabet(["", *plain(alphabet).characters], False), language_model)


def best_text(search: BeamSearchDecoderCTC, row: np.ndarray, width: int, beams: float, symbols: float) -> str:
    """The best text of one utterance (T, V). Of each frame, symbols more than `symbols` nats below certainty are
    passed over (never the best one), then prefixes more than `beams` nats behind the best, then all but `width`.
    """
    if not len(row):
        return ""
    # prune_history, the default of decode(), drops all but one of the prefixes that end in the same words
    found = search.decode_beams(
        row, beam_width=width, beam_prune_logp=-beams, token_min_logp=-symbols, prune_history=False
    )
    return found[0][0]
