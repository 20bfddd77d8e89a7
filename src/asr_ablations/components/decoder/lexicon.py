"""Beam search restricted to a list of words, by flashlight-text (Baunsgaard2020 §2.2.2, after Scheidl et al. 2018)."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import torch

from asr_ablations.components.decoder.beam import WIDEST, check_nats, split_batch
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.language_models.model import read_words
from asr_ablations.tools.checks import whole
from asr_ablations.tools.errors import installs
from asr_verdicts.errors import UsageError

if TYPE_CHECKING:
    from torchaudio.models.decoder import CTCDecoder

BLANK, SPACE = "<blank>", "<space>"


class Lexicon:
    """Decodes log_probs (B, T, V) in nats and lengths (B,) into B transcripts that contain only listed words.

    words: file with one word per line, or a folder written by src/lm.py. All other parameters are the same as in Beam.
    Raises UsageError for values out of range or an invalid word list, and if flashlight-text is not installed.
    """

    searches = True

    def __init__(self, alphabet: Alphabet, *, beam_width: int, prune_beams: float, words: str | None) -> None:
        if " " not in alphabet.letters:
            raise UsageError(f"decoder=lexicon: the alphabet {alphabet.letters!r} lacks the space that ends words")
        self.alphabet = alphabet
        self.beam_width = whole("decoder.beam_width", beam_width, 1, WIDEST)
        self.prune_beams = check_nats("prune_beams", prune_beams)
        self.end = 1 + alphabet.letters.index(" ") if alphabet.spells else 0
        file, word_list = read_words(words, alphabet)
        self.files = {"words": file}
        self.search = _build_search(alphabet, word_list, self.beam_width, self.prune_beams)

    def __call__(self, log_probs: torch.Tensor, lengths: torch.Tensor) -> list[str]:
        return [self._decode(row) for row in split_batch(log_probs, lengths, self.alphabet)]

    def _decode(self, row: np.ndarray) -> str:
        if not len(row):
            return ""
        # flashlight-text would drop an unfinished last word, so an extra frame with a space (or a blank) ends it
        end = np.full((1, row.shape[1]), -1e4)
        end[0, self.end] = 0.0
        emissions = torch.from_numpy(np.concatenate([row, end])).float().contiguous()
        ((best, *_),) = self.search(emissions[None])
        return " ".join(best.words)


def _build_search(alphabet: Alphabet, words: list[str], beam_width: int, prune: float) -> "CTCDecoder":
    try:
        from torchaudio.models.decoder import ctc_decoder
    except (ImportError, RuntimeError) as error:
        raise UsageError(f"decoder=lexicon: needs flashlight-text; {installs('lexicon')}") from error

    with TemporaryDirectory() as folder:
        lexicon = Path(folder) / "lexicon"
        tokens = [BLANK, *(SPACE if symbol == " " else symbol for symbol in alphabet.searched)]
        lexicon.write_text("".join(f"{word} {_spell(word, alphabet)}\n" for word in words), encoding="utf-8")
        return ctc_decoder(
            lexicon=str(lexicon),
            tokens=tokens,
            beam_size=beam_width,
            beam_threshold=min(prune, 1e9),
            log_add=True,  # sums over alignments, as decoder=beam does
            blank_token=BLANK,
            sil_token=SPACE if alphabet.spells else BLANK,
        )


def _spell(word: str, alphabet: Alphabet) -> str:
    """Return the tokens of a word, separated by spaces. A word of letters ends with the token for a space."""
    if alphabet.spells:
        return f"{' '.join(word)} {SPACE}"
    return " ".join(alphabet.symbols[label - 1] for label in alphabet.encode(word))
