"""Text as it enters: equal words in other Unicode forms are equal, and what is scored is the same in every language."""

import unicodedata
from pathlib import Path

import pytest

from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean, decode, fold, lower, normalisation, spelled_on_disk, without_punctuation


def test_a_name_is_found_in_the_form_of_the_disk(tmp_path: Path) -> None:
    """As after copying from a Mac; folders and files may have different forms."""
    composed, decomposed = (unicodedata.normalize(form, "zażółć") for form in ("NFC", "NFD"))
    (tmp_path / composed / decomposed).mkdir(parents=True)
    file = tmp_path / composed / decomposed / f"{composed}.wav"
    file.touch()
    for form in ("NFC", "NFD"):
        assert spelled_on_disk(Path(unicodedata.normalize(form, str(file)))) == file
    absent = tmp_path / "brak" / "ż.wav"
    assert spelled_on_disk(absent) == absent


def test_every_unicode_form_is_one_text_without_invisible_signs_and_with_one_apostrophe() -> None:
    for text in ("zażółć gęślą jaźń", "Ångström", "한국어", "Ệ", "क़लम", "ά", "\u1fef", "が"):
        (form,) = {clean(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
        assert clean(form) == form
    for sign in "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\u202a\u202e\u2066\u2069\u061c\u034f\ufe0f":
        assert clean(f"za\u0301{sign}b {sign}c") == "záb c"
        assert clean(f"a{sign}\u0301") == "á"  # what it stood between composes
        assert without_punctuation(f"می{sign}خواهم") == "میخواهم"
    assert clean("\u06dd") == "\u06dd"  # the Arabic end of ayah is visible, though of the same category
    for sign in "'’‘‛′ʻʼ׳＇`´":
        assert normalisation("case")(f"It{sign}S") == without_punctuation(f"{sign}It{sign}s{sign}") == "it's"
        assert clean(f"it{sign}s") == "it's"


def test_the_case_of_a_language() -> None:
    for text, language, expected in (
        ("İSTANBUL IŞIK", "", "istanbul işik"), ("İSTANBUL IŞIK", "tr", "istanbul ışık"),
        ("I\u0307STANBUL IŞIK", "tr", "istanbul ışık"), ("IŞIK ışık", "tr-TR", "ışık ışık"), ("IŞIK", "az_AZ", "ışık"),
        ("IŞIK", "en", "işik"), ("ΣΊΣΥΦΟΣ", "", "σίσυφος"),
    ):  # fmt: skip
        assert (
            lower(clean(text), language) == normalisation("case", language, "data.normalise", lower)(text) == expected
        )
        assert normalisation("case", language)(text) == normalisation("case", language)(expected)
    assert fold("STRASSE") == fold("Straße") == fold("STRAẞE") == "strasse"
    assert fold("Ω") == fold("ω")


def test_punctuation() -> None:
    for text, expected in (
        ("3,5 kg; 3.5", "3,5 kg 3.5"),
        ("1,000, 12,345,678. (1,000)", "1000 12345678 1000"),
        ("1,000.5 1,00,000 1,2,3 0,25", "1000.5 100000 1,2,3 0,25"),
        ("٣٫٥", "٣٫٥"),
        ("Col·lecció, l’amic!", "col·lecció l'amic"),
        ("'so' rock 'n' roll — o'neil-'s", "so rock n roll o'neil s"),
        ("हिन्दी। क्या?", "हिन्दी क्या"),
        ("«Да», — 50 % …", "да 50"),
    ):
        assert without_punctuation(text) == expected
        assert without_punctuation(unicodedata.normalize("NFD", text)) == expected
        assert without_punctuation(expected) == expected


def test_what_is_no_utf_8_is_named_with_a_remedy() -> None:
    encoding = "is not UTF-8; its encoding is not known (CP1250 and LATIN1 are common); iconv -f"
    for content, message in (
        ("żółw".encode("utf-16"), ": it is in UTF-16, not UTF-8; iconv -f UTF-16 -t UTF-8 'my text' converts it"),
        ("żółw".encode("utf-32"), ": it is in UTF-32, not UTF-8; iconv -f UTF-32"),
        ("one".encode("utf-16-le"), ":7: it contains NUL, like UTF-16"),
        ("a\nbę".encode("cp1250"), f":8: byte 2 {encoding}"),
        (b"\x1f\x8b\x08", ": it is compressed by gzip; expected text"),
    ):
        with pytest.raises(UsageError) as error:
            decode(content, Path("folder/my text"), 1 if message.startswith(": ") else 7)
        assert str(error.value).startswith(f"folder/my text{message}")
    assert decode("\ufeffżółw\n".encode(), Path("x")) == "żółw\n"
