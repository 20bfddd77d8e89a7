"""Errors of words and characters, and the alignment that they come from."""

import itertools
import random
import re

import jiwer
import pytest

from asr_verdicts.error_counts import (
    COLUMNS,
    Errors,
    align,
    character_errors,
    count_errors,
    recorded_errors,
    sum_errors,
    total_errors,
    word_errors,
)
from tests.helpers.support import shared_data

CASES = [
    ("a b c", "a b c", (3, 0, 0, 0)), ("a b c", "a x c", (3, 1, 0, 0)), ("a b c", "a c", (3, 0, 1, 0)),
    ("a b c", "a x b c", (3, 0, 0, 1)), ("", "a b", (0, 0, 0, 2)), ("a b", "", (2, 0, 2, 0)),
    ("", "", (0, 0, 0, 0)), ("  a \t b ", "a b", (2, 0, 0, 0)),
    ("zażółć gęślą jaźń", "zażółć gęśl jaźń", (3, 1, 0, 0)),
    ("a b", "b a", (2, 0, 1, 1)),  # two errors either way: the alignment with the more words right
    ("a b c d", "b c d e", (4, 0, 1, 1)),
]  # fmt: skip


def counts(errors: Errors) -> tuple[int, int, int, int]:
    return errors.total, errors.substitutions, errors.deletions, errors.insertions


@pytest.mark.parametrize(("reference", "hypothesis", "expected"), CASES)
def test_word_errors_by_hand(reference: str, hypothesis: str, expected: tuple[int, ...]) -> None:
    assert counts(word_errors(reference, hypothesis)) == expected


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        ("kitten", "sitting", (6, 2, 0, 1)),
        ("a b", "ab", (3, 0, 1, 0)),  # a space is a character
        ("żółw", "zolw", (4, 3, 0, 0)),
        ("", "ab", (0, 0, 0, 2)),
        ("ab", "", (2, 0, 2, 0)),
    ],
)
def test_character_errors_by_hand(reference: str, hypothesis: str, expected: tuple[int, ...]) -> None:
    assert counts(character_errors(reference, hypothesis)) == expected


def sentences(seed: int, longest: int = 12) -> tuple[str, str]:
    drawn = random.Random(seed)
    return tuple(" ".join(drawn.choices(["a", "b", "ż", "the", "cat"], k=drawn.randint(1, longest))) for _ in "rh")  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(60))
def test_totals_are_jiwers(seed: int) -> None:
    reference, hypothesis = sentences(seed)
    ours, theirs = word_errors(reference, hypothesis), jiwer.process_words(reference, hypothesis)
    assert ours.count == theirs.substitutions + theirs.deletions + theirs.insertions
    assert ours.rate == pytest.approx(theirs.wer)
    assert character_errors(reference, hypothesis).rate == pytest.approx(jiwer.cer(reference, hypothesis))


@pytest.mark.parametrize("seed", range(60))
def test_counts_fit_the_lengths(seed: int) -> None:
    reference, hypothesis = (s.split() for s in sentences(seed))
    errors = count_errors(reference, hypothesis)
    assert errors.total == len(reference)
    assert errors.insertions - errors.deletions == len(hypothesis) - len(reference)
    assert min(counts(errors)) >= 0


def most_right(reference: list[str], hypothesis: list[str]) -> tuple[int, int]:
    """(errors, substitutions), the fewest of the first and then of the second, by trying every alignment."""
    if not reference or not hypothesis:
        return len(reference) + len(hypothesis), 0
    wrong = reference[0] != hypothesis[0]
    errors, substitutions = most_right(reference[1:], hypothesis[1:])
    skips = [most_right(reference[1:], hypothesis), most_right(reference, hypothesis[1:])]
    return min((errors + wrong, substitutions + wrong), *((e + 1, s) for e, s in skips))


@pytest.mark.parametrize("seed", range(60))
def test_of_all_alignments_with_the_fewest_errors_the_one_with_most_words_right(seed: int) -> None:
    reference, hypothesis = (s.split() for s in sentences(seed, longest=6))
    errors = count_errors(reference, hypothesis)
    assert (errors.count, errors.substitutions) == most_right(reference, hypothesis)


def test_swapping_the_texts_swaps_deletions_and_insertions() -> None:
    for seed in range(60):
        errors, swapped = word_errors(*sentences(seed)), word_errors(*reversed(sentences(seed)))
        assert counts(errors)[1:] == (swapped.substitutions, swapped.insertions, swapped.deletions)


def test_rates_add_up_over_utterances_not_over_rates() -> None:
    """1 error in 1 word and 0 in 9 are 10 %, not the mean of 100 % and 0 %."""
    assert (word_errors("a", "b") + word_errors("c " * 9, "c " * 9)).rate == pytest.approx(0.1)


@pytest.mark.parametrize("metric", list(COLUMNS))
def test_the_errors_of_a_table_are_those_of_its_rows(metric: str) -> None:
    """Also over the longer text, where an insertion lengthens an utterance and a deletion shortens no other."""
    rows = []
    for reference, hypothesis in (("ab", "abcd"), ("abcdef", "a"), ("ab", "bc"), ("", "abc")):
        words, characters = word_errors(reference, hypothesis), character_errors(reference, hypothesis)
        named = dict(zip(COLUMNS["cer"], counts(characters), strict=True))
        rows.append({**named, **dict(zip(COLUMNS["wer"], counts(words), strict=True))})
    assert total_errors(rows, metric) == sum_errors(recorded_errors(row, metric) for row in rows)
    expected = {"wer": (3, 3, 0, 1), "cer": (10, 0, 6, 6), "cer_longer": (15, 0, 6, 6)}
    assert counts(total_errors(rows, metric)) == expected[metric]


def test_insertions_into_an_empty_reference_are_not_lost() -> None:
    assert word_errors("", "a b c").rate == 3
    assert word_errors("", "").rate == 0
    assert (word_errors("", "a") + word_errors("b c", "b c")).rate == pytest.approx(1 / 2)


def trn(name: str) -> dict[str, str]:
    """Texts by id of a file in NIST's trn format, `text (id)`; case is not significant in either."""
    lines = shared_data(f"golden/wer/sctk/{name}").read_text().lower().splitlines()
    texts = {id_.rstrip(")"): text for text, _, id_ in (line.strip().rpartition("(") for line in lines)}
    assert len(texts) == len(lines), "an id stands twice"
    return texts


def readings(text: str) -> list[str]:
    """All that `a { b / c } d` allows; @ is no word at all."""
    parts = [part.split("/") for part in re.split(r"[{}]", text)]
    return [" ".join(chosen).replace("@", "") for chosen in itertools.product(*parts)]


def test_the_readings_of_alternations() -> None:
    words = [reading.split() for reading in readings("a { b / c d / @ } e { f / g }")]
    assert words == [["a", *mid, "e", end] for mid in (["b"], ["c", "d"], []) for end in "fg"]


def test_counts_are_sclites_on_csrnab() -> None:
    """NIST SCTK's csrnab set, scored by sclite: expected/test1.dtl and test1.raw, all and by speaker."""
    references, hypotheses = trn("csrnab.ref"), trn("csrnab.hyp")
    assert references.keys() == hypotheses.keys()
    speakers = {id_[:3]: Errors(0, 0, 0, 0) for id_ in references}
    for id_, text in references.items():
        errors_by_reading = [word_errors(reading, hypotheses[id_]) for reading in readings(text)]
        speakers[id_[:3]] += min(errors_by_reading, key=lambda errors: (errors.count, errors.substitutions))
    assert sum(errors.count for errors in speakers.values()) == 169
    assert {name: counts(errors) for name, errors in speakers.items()} == {
        "4t0": (458, 64, 9, 12),
        "4t1": (544, 32, 3, 4),
        "4t2": (404, 35, 0, 10),
    }


@pytest.mark.parametrize("seed", range(200))
def test_an_alignment_spells_both_sides_and_has_the_counted_errors(seed: int) -> None:
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


def test_by_hand() -> None:
    expected = [("a", "a"), ("cab", None), ("had", "dad"), (None, "oh")]
    assert align(["a", "cab", "had"], ["a", "dad", "oh"]) in (expected, [("a", "a"), ("cab", "dad"), ("had", "oh")])
