"""Characters and their indices."""

import pytest

from asr_ablations.config.languages import alphabets
from asr_ablations.data.alphabet import Alphabet, normalise, shortest_path
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
