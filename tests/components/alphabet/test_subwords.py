"""Pieces of words: SentencePiece's own encodings, and every search behind them."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from asr_ablations.components.alphabet.subwords import Pieces, SentencePiece
from asr_ablations.data.alphabet import Alphabet, Letters
from asr_ablations.data.word_times import align
from asr_verdicts.errors import UsageError
from tests.components.alphabet.test_alphabet_contract import corpus
from tests.helpers.small_models import decoder
from tests.helpers.support import component

sentencepiece = pytest.importorskip("sentencepiece")

TEXTS = ["the old town went there", "then john went to the town", "a tool to the tooth", "she reads the red letter"]
VOCABULARY = sorted({word for text in TEXTS for word in text.split()})
LETTERS = Letters("abcdefghijklmnopqrstuvwxyz '")


def pieces(type_: str, size: int = 20) -> Pieces:
    result = SentencePiece(type=type_, size=size)(corpus(*TEXTS))
    assert result.outputs == size
    return result


@pytest.fixture(params=["unigram", "bpe"])
def alphabet(request: pytest.FixtureRequest) -> Pieces:
    return pieces(request.param)


def test_texts_have_the_labels_that_sentencepiece_gives_them(alphabet: Pieces) -> None:
    """Read by its own processor from the checkpoint's state."""
    restored = component("alphabet", "bpe").restore(alphabet.state())
    processor = sentencepiece.SentencePieceProcessor(model_proto=restored.model)
    for text in [*TEXTS, "", "she went"]:
        assert restored.encode(text) == processor.encode(text)
        assert processor.decode(restored.encode(text)) == restored.decode(restored.encode(text)) == text


def test_a_size_that_the_text_does_not_allow_and_a_damaged_model_are_refused_in_a_line() -> None:
    for size, type_ in itertools.product((5, 5000), ("bpe", "unigram")):
        with pytest.raises(UsageError, match=rf"^alphabet\.size={size}: expected (at most|more than) .*\d+.*$"):
            pieces(type_, size)
    with pytest.raises(UsageError, match="damaged"):
        Pieces(b"no model")
    with pytest.raises(UsageError, match="needs an alphabet of letters"):
        decoder("beam_charlm", pieces("bpe"), lm=None)


def spoken(alphabet: Alphabet, texts: list[str], sure: float = 0.97) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities (B, T, V) of a model that has learned these texts: a blank after each label."""
    rows = []
    for text in texts:
        best = list(itertools.chain.from_iterable((label, 0) for label in alphabet.encode(text)))
        row = np.full((len(best), alphabet.outputs), (1 - sure) / (alphabet.outputs - 1))
        row[np.arange(len(best)), best] = sure
        rows.append(torch.from_numpy(np.log(row)).float())
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])


@pytest.mark.parametrize("name", ["greedy", "beam", "lexicon"])
def test_every_search_reads_what_it_reads_with_letters(name: str, alphabet: Pieces, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\n".join(VOCABULARY))
    options = {"words": str(tmp_path / "words.txt")} if name == "lexicon" else {}
    texts = [*TEXTS, "", "the tooth", *VOCABULARY]
    assert decoder(name, LETTERS, **options)(*spoken(LETTERS, texts)) == texts
    assert decoder(name, alphabet, **options)(*spoken(alphabet, texts)) == texts


def test_words_are_where_their_labels_are(alphabet: Pieces) -> None:
    text = TEXTS[0]
    log_probs, _ = spoken(alphabet, [text])
    words = align(log_probs[0], text, alphabet, step=0.02, offset=1.0)
    counts = [len(alphabet.encode(word)) for word in text.split()]
    starts = [1.0 + 0.02 * 2 * sum(counts[:place]) for place in range(len(counts))]
    assert [word.word for word in words] == text.split()
    assert [word.start for word in words] == pytest.approx(starts)
    assert all(word.confidence == pytest.approx(0.97, abs=1e-3) for word in words)
