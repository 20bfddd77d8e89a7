"""Word times and confidences."""

import itertools
import json
import math
from collections.abc import Iterator, Sequence

import pytest
import torch

from asr_ablations.components.decoder.greedy import Greedy
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.metrics.ctc_alignment import letter_frames
from asr_ablations.transcription.recogniser import align
from tests.helpers.support import shared_data

ALPHABET = Alphabet("ab ")


def sharp(path: str, confidence: float = 0.9) -> torch.Tensor:
    """Log-probabilities (T, 4) whose best symbol of each frame is the path's, "-" being blank."""
    rows = torch.full((len(path), 4), (1 - confidence) / 3)
    for row, symbol in zip(rows, path, strict=True):
        row["-ab ".index(symbol)] = confidence
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
    frames = letter_frames(blank_first.numpy(), alphabet.encode(text))
    path = torch.zeros(len(blank_first), dtype=torch.long)
    for label, where in zip(alphabet.encode(text), frames, strict=True):
        path[where] = label
    assert blank_first.gather(1, path[:, None]).sum() == pytest.approx(float(blank_first.max(dim=1).values.sum()))
    assert [(word.start, word.end) for word in words] == list(of_best_path(blank_first, symbols))
    assert all(0 < word.confidence <= 1 for word in words)


def test_the_path_is_the_best_of_all() -> None:
    """Against every path of six frames, ties among them: probabilities are of one digit."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        log_probs = torch.randint(1, 4, (6, 4), generator=generator).double().log_softmax(-1)
        for text in ("ab", "aa", "a b", "bab"):
            labels = ALPHABET.encode(text)
            paths = [p for p in itertools.product(range(4), repeat=6) if collapsed(p) == labels]
            best = max(sum(float(log_probs[t, s]) for t, s in enumerate(p)) for p in paths)
            frames = letter_frames(log_probs.numpy(), labels)
            path = [0] * 6
            for label, where in zip(labels, frames, strict=True):
                for t in where:
                    path[t] = label
            assert collapsed(path) == labels
            assert sum(float(log_probs[t, s]) for t, s in enumerate(path)) == pytest.approx(best)


def collapsed(path: Sequence[int]) -> list[int]:
    return [symbol for symbol, _ in itertools.groupby(path) if symbol]


def test_too_few_frames_for_a_text_are_told() -> None:
    with pytest.raises(ValueError, match="2 frames are too few for 2 labels"):
        letter_frames(torch.zeros(2, 4).numpy(), [1, 1])
