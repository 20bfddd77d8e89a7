"""Rates by both definitions, tables of speakers, confusions."""

from pathlib import Path

import pytest

from asr_ablations.data.utterances import Utterance
from asr_ablations.evaluation.record import error_report, evaluation_name, speakers
from asr_ablations.experiment.utterances import utterance_row
from asr_ablations.runs.record import rates

SPOKEN = [
    ("1", "anna", "the cat sat", "the cat sat"),
    ("2", "anna", "the cat sat", "a cat"),
    ("3", "bert", "a dog", "a big dog ran"),
    ("4", "bert", "the cat", "the bat"),
]


def rows(spoken=SPOKEN):
    return [
        utterance_row("test", Utterance(id_, speaker, Path("x.flac"), 0.0, 1.0, reference), reference, hypothesis)
        for id_, speaker, reference, hypothesis in spoken
    ]


def test_the_rate_over_the_longer_string() -> None:
    """Baunsgaard2020 §4.1.1: e(x, y) / max(|x|, |y|). "ab" against "abcd": 2 / 4, where the usual rate is 2 / 2."""
    assert rates(rows([("1", "s", "ab", "abcd")])).cer_longer == 0.5
    assert rates(rows([("1", "s", "abcd", "ab")])).cer_longer == 0.5
    assert rates(rows([("1", "s", "ab", "ab"), ("2", "s", "ab", "cd")])).cer_longer == 0.5
    assert rates(rows([("1", "s", "", "abc")])).cer_longer == 1.0
    assert rates(rows([("1", "s", "", "")])).cer_longer == 0.0
    assert rates([]).cer_longer == 0.0


def test_speakers_sum_to_the_whole() -> None:
    table = speakers(rows())
    assert [(row["speaker"], row["utterances"], row["words"]) for row in table] == [("bert", 2, 4), ("anna", 2, 6)]
    # bert: 2 insertions, 1 substitution in 4 words; anna: 1 substitution, 1 deletion in 6
    assert [row["wer"] for row in table] == [3 / 4, pytest.approx(2 / 6)]


def test_confusions() -> None:
    """icefall's order: the most frequent first; each count by hand."""
    report = error_report(rows()).splitlines()
    assert report[0] == "set test: WER 50.00 % (5 errors in 10 words)"
    assert "2:\t(the->a) cat (sat->*)" in report
    assert "3:\ta (*->big) dog (*->ran)" in report
    at = report.index
    substitutions = report[at("SUBSTITUTIONS: count reference -> hypothesis") + 1 :][:2]
    assert substitutions == ["1\tcat -> bat", "1\tthe -> a"]
    assert report[at("DELETIONS: count reference") + 1] == "1\tsat"
    assert report[at("INSERTIONS: count hypothesis") + 1 :][:2] == ["1\tbig", "1\tran"]
    words = report[at("PER-WORD STATISTICS: word  correct  errors  in references  in hypotheses") + 1 :]
    # sorted by errors, then by name; a: once right, once recognised where "the" was said
    assert words[0] == "a\t1\t1\t1\t2"
    assert "cat\t2\t1\t3\t2" in words


def test_a_report_has_every_set_and_no_rows_are_no_error() -> None:
    two = rows() + [{**row, "set": "other"} for row in rows(SPOKEN[:1])]
    assert [line for line in error_report(two).splitlines() if line.startswith("set ")] == [
        "set test: WER 50.00 % (5 errors in 10 words)",
        "set other: WER 0.00 % (0 errors in 3 words)",
    ]
    assert error_report([]) == ""


def test_a_name_depends_on_the_content() -> None:
    content = {"decoder": {"beam_width": 4}, "files": {}}
    assert evaluation_name("beam", content) == evaluation_name("beam", dict(reversed(content.items())))
    assert evaluation_name("beam", content) != evaluation_name("beam", {**content, "decoder": {"beam_width": 5}})
    assert evaluation_name("beam", content).startswith("beam-")
