"""Word times and confidences."""

import itertools
import json
import math
from collections.abc import Iterator

import pytest
import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.decoder.greedy import Greedy
from asr_ablations.transcription.alignment import align
from support import shared_data

ALPHABET = Alphabet("ab ")


def sharp(path: str, sure: float = 0.9) -> torch.Tensor:
    """Log-probabilities (T, 4) whose best symbol of each frame is the path's, "-" being blank."""
    rows = torch.full((len(path), 4), (1 - sure) / 3)
    for row, symbol in zip(rows, path, strict=True):
        row["-ab ".index(symbol)] = sure
    return rows.log()


def test_times_are_of_the_first_and_the_last_letters_frames() -> None:
    words = align(sharp("--aab--- -b-a-"), "ab ba", ALPHABET, step=0.04, offset=10.0)
    assert [word.word for word in words] == ["ab", "ba"]
    assert [(word.start, word.end) for word in words] == [
        pytest.approx((10.08, 10.20)),
        pytest.approx((10.40, 10.52)),
    ]
    assert [word.confidence for word in words] == pytest.approx([0.9, 0.9])


def test_confidence_is_the_geometric_mean_of_the_letters_frames() -> None:
    log_probs = torch.cat([sharp("a", 0.9), sharp("-", 0.5), sharp("b", 0.4)])
    (word,) = align(log_probs, "ab", ALPHABET, 1.0, 0.0)
    assert word.confidence == pytest.approx(math.sqrt(0.9 * 0.4))


def test_a_text_that_the_model_finds_unlikely_gets_a_low_confidence() -> None:
    (word,) = align(sharp("-a-b-", 0.99), "ba", ALPHABET, 1.0, 0.0)
    assert word.confidence < 0.1


def test_no_text_no_words() -> None:
    assert align(sharp("--"), "", ALPHABET, 1.0, 0.0) == []
    assert align(torch.zeros(0, 4), "", ALPHABET, 1.0, 0.0) == []


def test_double_letters_with_a_separation_character() -> None:
    alphabet = Alphabet("ab_", "_")
    (word,) = align(sharp("a a--b"), "aab", alphabet, 1.0, 0.0)
    assert (word.start, word.end) == (0, 6)


def of_best_path(log_probs: torch.Tensor, symbols: str) -> Iterator[tuple[int, int]]:
    """First frame and end of each word on the path of each frame's best symbol: the reference, without dynamic
    programming. It is the most probable of all paths, so also of those of its own text.
    """
    best = log_probs.argmax(dim=-1).tolist()
    runs = [(symbol, list(frames)) for symbol, frames in itertools.groupby(range(len(best)), lambda t: best[t])]
    word: list[int] = []
    for symbol, frames in [*runs, (symbols.index(" ") + 1, [])]:
        if symbol and symbols[symbol - 1] == " ":
            if word:
                yield word[0], word[-1] + 1
            word = []
        elif symbol:
            word += frames


def test_greedy_text_is_aligned_as_its_own_path_says() -> None:
    """A real model's outputs for an utterance of LibriSpeech."""
    outputs = torch.tensor(json.loads(shared_data("golden/decoder/libri_logits.json").read_text())).double()
    symbols = " abcdefghijklmnopqrstuvwxyz'"
    blank_first = torch.cat([outputs[:, -1:], outputs[:, :-1]], dim=1).log_softmax(-1)
    alphabet = Alphabet(symbols)
    (text,) = Greedy(alphabet)(blank_first[None], torch.tensor([len(blank_first)]))
    assert text.startswith("i have a good deal of will")
    words = align(blank_first, text, alphabet, 1.0, 0.0)
    assert " ".join(word.word for word in words) == text
    assert [(word.start, word.end) for word in words] == list(of_best_path(blank_first, symbols))
    assert all(0 < word.confidence <= 1 for word in words)
