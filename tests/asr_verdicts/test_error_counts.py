"""Text in any Unicode form, errors of words and characters, and the alignment that they come from."""

import random
import unicodedata
from pathlib import Path

import jiwer
import pytest

from asr_verdicts import error_counts
from asr_verdicts.error_counts import COLUMNS, Errors, align, character_errors, count_errors, total_errors, word_errors
from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean, decode, fold, lower, normalisation, spelled_on_disk, without_punctuation


def counts(errors: Errors) -> tuple[int, int, int, int]:
    return errors.total, errors.substitutions, errors.deletions, errors.insertions


def sentences(seed: int, longest: int = 12) -> tuple[str, str]:
    drawn = random.Random(seed)
    return tuple(" ".join(drawn.choices(["a", "b", "ż", "the", "cat"], k=drawn.randint(1, longest))) for _ in "rh")  # type: ignore[return-value]


def test_errors_by_hand_add_up_over_utterances_and_lose_no_insertion() -> None:
    for reference, hypothesis, expected in (
        ("a b c", "a x c", (3, 1, 0, 0)), ("a b c", "a c", (3, 0, 1, 0)), ("a b c", "a x b c", (3, 0, 0, 1)),
        ("", "a b", (0, 0, 0, 2)), ("a b", "", (2, 0, 2, 0)), ("", "", (0, 0, 0, 0)),
        ("  a \t b ", "a b", (2, 0, 0, 0)), ("zażółć gęślą jaźń", "zażółć gęśl jaźń", (3, 1, 0, 0)),
        ("a b", "b a", (2, 0, 1, 1)),  # two errors either way: the alignment with the more words right
        ("a b c d", "b c d e", (4, 0, 1, 1)),
    ):  # fmt: skip
        assert counts(word_errors(reference, hypothesis)) == expected
    for reference, hypothesis, expected in (
        ("kitten", "sitting", (6, 2, 0, 1)), ("a b", "ab", (3, 0, 1, 0)),  # a space is a character
        ("żółw", "zolw", (4, 3, 0, 0)), ("", "ab", (0, 0, 0, 2)), ("ab", "", (2, 0, 2, 0)),
    ):  # fmt: skip
        assert counts(character_errors(reference, hypothesis)) == expected
    expected_pairs = [("a", "a"), ("cab", None), ("had", "dad"), (None, "oh")]
    either = [("a", "a"), ("cab", "dad"), ("had", "oh")]
    assert align(["a", "cab", "had"], ["a", "dad", "oh"]) in (expected_pairs, either)
    # 1 error in 1 word and 0 in 9 are 10 %, not the mean of 100 % and 0 %
    assert (word_errors("a", "b") + word_errors("c " * 9, "c " * 9)).rate == pytest.approx(0.1)
    assert (word_errors("", "a b c").rate, word_errors("", "").rate) == (3, 0)
    assert (word_errors("", "a") + word_errors("b c", "b c")).rate == pytest.approx(1 / 2)


def test_totals_are_jiwers() -> None:
    for seed in range(60):
        reference, hypothesis = sentences(seed)
        ours, theirs = word_errors(reference, hypothesis), jiwer.process_words(reference, hypothesis)
        assert ours.count == theirs.substitutions + theirs.deletions + theirs.insertions
        assert ours.rate == pytest.approx(theirs.wer)
        assert character_errors(reference, hypothesis).rate == pytest.approx(jiwer.cer(reference, hypothesis))


def test_of_all_alignments_with_the_fewest_errors_the_one_with_most_words_right() -> None:
    """(errors, substitutions), the fewest of the first and then of the second, by trying every alignment."""

    def most_right(reference: list[str], hypothesis: list[str]) -> tuple[int, int]:
        if not reference or not hypothesis:
            return len(reference) + len(hypothesis), 0
        wrong = reference[0] != hypothesis[0]
        errors, substitutions = most_right(reference[1:], hypothesis[1:])
        skips = [most_right(reference[1:], hypothesis), most_right(reference, hypothesis[1:])]
        return min((errors + wrong, substitutions + wrong), *((e + 1, s) for e, s in skips))

    for seed in range(60):
        reference, hypothesis = (s.split() for s in sentences(seed, longest=6))
        errors = count_errors(reference, hypothesis)
        assert (errors.count, errors.substitutions) == most_right(reference, hypothesis)


@pytest.mark.parametrize("metric", list(COLUMNS))
def test_the_errors_of_a_table_are_those_of_its_rows(metric: str) -> None:
    """Also over the longer text, where an insertion lengthens an utterance and a deletion shortens no other."""
    rows = []
    for reference, hypothesis in (("ab", "abcd"), ("abcdef", "a"), ("ab", "bc"), ("", "abc")):
        words, characters = word_errors(reference, hypothesis), character_errors(reference, hypothesis)
        named = dict(zip(COLUMNS["cer"], counts(characters), strict=True))
        rows.append({**named, **dict(zip(COLUMNS["wer"], counts(words), strict=True))})
    assert total_errors(rows, metric) == error_counts.sum_errors(
        error_counts.recorded_errors(row, metric) for row in rows
    )
    expected = {"wer": (3, 3, 0, 1), "cer": (10, 0, 6, 6), "cer_longer": (15, 0, 6, 6)}
    assert counts(total_errors(rows, metric)) == expected[metric]


def test_an_alignment_spells_both_sides_and_has_the_counted_errors() -> None:
    for seed in range(200):
        drawn = random.Random(seed)
        reference, hypothesis = (drawn.choices("abc", k=drawn.randrange(9)) for _ in range(2))
        pairs = align(reference, hypothesis)
        assert [r for r, _ in pairs if r is not None] == reference
        assert [h for _, h in pairs if h is not None] == hypothesis
        expected = count_errors(reference, hypothesis)
        both = [(r, h) for r, h in pairs if r is not None and h is not None]
        assert sum(r != h for r, h in both) == expected.substitutions
        assert sum(h is None for _, h in pairs) == expected.deletions
        assert sum(r is None for r, _ in pairs) == expected.insertions


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
