"""Characters and their indices."""

import itertools
import operator

import numpy as np
import pytest

from asr_ablations.config.resolvers import alphabets
from asr_ablations.data.alphabet import Alphabet, normalise, shortest_path, shortest_paths
from asr_ablations.tools.errors import UsageError
from tests.helpers.support import CONF

ALPHABETS = alphabets(CONF)
every_language = pytest.mark.parametrize("language", ALPHABETS)


@every_language
def test_decode_undoes_encode(language: str) -> None:
    alphabet = Alphabet(ALPHABETS[language])
    indices = alphabet.encode(alphabet.characters)
    assert indices == list(range(1, alphabet.outputs)), "0 is the blank"
    assert alphabet.decode(indices) == alphabet.characters
    assert alphabet.encode("") == []
    assert alphabet.decode([]) == ""


@pytest.mark.parametrize(("language", "text"), [("en", "it's a dog"), ("pl", "zażółć gęślą jaźń")])
def test_alphabets_spell_their_languages(language: str, text: str) -> None:
    alphabet = Alphabet(ALPHABETS[language])
    assert alphabet.decode(alphabet.encode(text)) == text


def test_english_has_the_thesiss_29_outputs() -> None:
    """Ambroszczyk2019 §1.2: 26 letters, space, apostrophe, blank."""
    assert Alphabet(ALPHABETS["en"]).outputs == 29


@pytest.mark.parametrize("characters", ["aba", "", "  "])
def test_an_alphabet_without_or_with_doubled_characters_is_refused(characters: str) -> None:
    with pytest.raises(UsageError, match=f"{characters!r}: expected"):
        Alphabet(characters)


def test_foreign_characters_are_found_and_not_encoded() -> None:
    assert Alphabet("ab").foreign("añ b3ñ") == [" ", "3", "ñ"]
    assert Alphabet("ab").foreign("") == Alphabet("ab").foreign("baab") == []
    with pytest.raises(KeyError, match="c"):
        Alphabet("ab").encode("abc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("  IT IS\tSO \n", "it is so"), ("Don’t", "don't"), ("ŻÓŁĆ", "żółć"), ("", ""), ("a  b", "a b")],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected
    assert normalise(expected) == expected


@pytest.mark.parametrize(
    ("text", "frames"), [("", 0), ("a", 1), ("ab", 2), ("aa", 3), ("aaa", 5), ("abba", 5), ("aab", 4)]
)
def test_shortest_path_has_a_blank_between_equal_neighbours(text: str, frames: int) -> None:
    assert shortest_path(Alphabet("ab").encode(text)) == frames


@pytest.mark.parametrize("separation", [None, "_"])
def test_many_texts_are_encoded_as_each_alone(separation: str | None) -> None:
    alphabet = Alphabet.with_separation("abż ", separation)
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("abż", repeat=n)]
    labels, counts = alphabet.encode_all(texts)
    expected = [alphabet.encode(text) for text in texts]
    assert [part.tolist() for part in np.split(labels, counts.cumsum())[:-1]] == expected
    least = [len(one) + sum(map(operator.eq, one, one[1:])) for one in expected]
    assert shortest_paths(labels, counts).tolist() == least
    assert [array.size for array in alphabet.encode_all([])] == [0, 0]


def test_among_many_texts_foreign_characters_have_no_index() -> None:
    labels, counts = Alphabet("ab").encode_all(["ab", "", "b\U0001f600`c"])
    assert labels.tolist() == [1, 2, 2, -1, -1, -1]
    assert counts.tolist() == [2, 0, 4]
