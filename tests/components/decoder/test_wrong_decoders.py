"""Users' mistakes with decoders, their models and lists: one clear line each."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.tools.errors import UsageError
from tests.helpers.small_models import LETTERS, bigrams, decoder, models, spelled
from tests.helpers.support import described, group_options

SEARCHES = [name for name in group_options("decoder") if "beam_width" in described("decoder", name)]
WRONG = {
    "beam_width": ([0, -1, 2.5, True, "wide", 10**9], "a whole number from 1 to 65536"),
    "prune_beams": ([0, -1.0, float("nan"), "a"], "a number above 0"),
    "prune_symbols": ([0, -1.0, float("nan")], "a number above 0"),
    "alpha": ([float("nan"), float("inf"), "a", True], "a finite number"),
    "beta": ([float("nan"), float("-inf")], "a finite number"),
    "unknown": ([float("nan")], "a finite number"),
}


@pytest.mark.parametrize(
    ("name", "key"), [(n, key) for n in SEARCHES for key in WRONG if key in described("decoder", n)]
)
def test_a_wrong_value_is_named_with_what_was_expected(name: str, key: str) -> None:
    values, expected = WRONG[key]
    for value in values:
        with pytest.raises(UsageError, match=f"decoder.{key}={value}: expected {expected}") as message:
            decoder(name, **{key: value})
        assert "\n" not in str(message.value)
    with pytest.raises(UsageError, match=f"decoder.{key}=null: expected a value, as a (whole )?number$"):
        decoder(name, **{key: None})


def refused(name: str, alphabet: Alphabet, **changes: Any) -> str:
    with pytest.raises(UsageError) as message:
        decoder(name, alphabet, **changes)
    assert "\n" not in str(message.value)
    return str(message.value)


ENGLISH = Alphabet("abcdefghijklmnopqrstuvwxyz '")


@pytest.mark.parametrize("name", ["beam_lm", "beam_charlm"])
def test_a_model_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    assert "decoder.lm is not set" in refused(name, LETTERS, lm=None)
    assert "nowhere.arpa: there is no such file" in refused(name, LETTERS, lm="nowhere.arpa")
    assert "there is no such file" in refused(name, LETTERS, lm=str(tmp_path))  # a folder without a model
    for number, content in enumerate([b"", b"hello\n", b"\\data\\\nngram 1=3\n\n\\1-grams:\n-1\ta\n", bytes(100)]):
        file = tmp_path / f"{number}.arpa"
        file.write_bytes(content)
        message = refused(name, LETTERS, lm=str(file))
        assert f"{number}.arpa: " in message
        assert "KenLM cannot read it" in message or "not an ARPA file" in message


@pytest.mark.parametrize("count", ["-4", "x", "1000000000", "0"])
def test_a_number_of_ngrams_that_the_file_cannot_hold(count: str, tmp_path: Path) -> None:
    """KenLM takes it at its word: -4 ends the process by a signal."""
    (tmp_path / "lm.arpa").write_text(f"\\data\\\nngram 1={count}\n\n\\1-grams:\n-1\ta\n\n\\end\\\n")
    message = refused("beam_lm", LETTERS, lm=str(tmp_path / "lm.arpa"))
    assert "lm.arpa" in message
    assert count in message or count == "0"


@pytest.mark.parametrize("content", [b"mmap lm", b"mmap lm http://kheafield.com/code format version 5\n\0" + bytes(99)])
def test_a_damaged_binary(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "lm.binary"
    file.write_bytes(content)
    assert "lm.binary: a KenLM binary that is damaged" in refused("beam_lm", LETTERS, lm=str(file))


def test_a_model_of_other_letters_or_another_case() -> None:
    upper = str(bigrams("upper.arpa", [word.upper() for word in spelled(LETTERS, 3)]))
    message = refused("beam_lm", ENGLISH, lm=upper)
    assert 'words cannot be spelled with the alphabet "abc' in message
    assert "its case differs" in message
    greek = str(bigrams("greek.arpa", ["αβ", "βα", "ab"]))
    message = refused("beam_lm", ENGLISH, lm=greek)
    assert "2 of its 3 words cannot be spelled" in message
    assert "case" not in message
    assert "αβ" in message
    characters = str(bigrams("greek-characters.arpa", ["α", "β"]))
    assert "α β are not in the alphabet" in refused("beam_charlm", ENGLISH, lm=characters)


def test_a_model_of_the_other_unit() -> None:
    words, characters = models(ENGLISH, 1)[0], models(ENGLISH, 1)[1]
    assert "a model of characters; use decoder=beam_charlm" in refused("beam_lm", ENGLISH, lm=characters)
    longer = str(bigrams("longer.arpa", ["ab", "b"]))
    assert "a model of words; use decoder=beam_lm" in refused("beam_charlm", ENGLISH, lm=longer)
    assert words


def test_a_list_of_words(tmp_path: Path) -> None:
    assert "decoder.words is not set" in refused("lexicon", LETTERS, words=None)
    assert "cannot be read" in refused("lexicon", LETTERS, words="nowhere.txt")
    for content, expected in {
        "": "there is no word in it",
        "\n \n": "there is no word in it",
        "ab\nabc\n": r"1 of 2 words cannot be spelled with the alphabet 'ab ', for example 'abc'",
        "AB": "cannot be spelled",
    }.items():
        file = tmp_path / "words.txt"
        file.write_text(content, encoding="utf-8")
        assert expected in refused("lexicon", LETTERS, words=str(file))
        assert expected in refused("lexicon", LETTERS, words=str(tmp_path))  # a folder with words.txt
    file.write_bytes(b"\xff\xfe")
    assert "cannot be read" in refused("lexicon", LETTERS, words=str(file))


def test_a_separation_spells_nothing(tmp_path: Path) -> None:
    signed = Alphabet("ab _", "_")
    file = tmp_path / "words.txt"
    file.write_text("a_a", encoding="utf-8")
    assert "cannot be spelled with the alphabet 'ab ', for example 'a_a'" in refused("lexicon", signed, words=str(file))
    model = str(bigrams("signed-letters.arpa", ["a", "_"]))
    assert "_ are not in the alphabet 'ab '" in refused("beam_charlm", signed, lm=model)


def test_a_lexicon_needs_a_space() -> None:
    assert "has no space" in refused("lexicon", Alphabet("ab"))


def test_a_compressed_model_is_read(tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "lm.arpa.gz"
    with gzip.open(packed, "wb") as out, Path(models(LETTERS, 3)[0]).open("rb") as source:
        shutil.copyfileobj(source, out)
    assert decoder("beam_lm", lm=str(packed)).model.words == sorted(spelled(LETTERS, 3))
