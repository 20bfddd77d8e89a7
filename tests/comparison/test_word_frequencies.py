"""Wrong words by their frequency in training, counted by hand."""

from dataclasses import replace
from pathlib import Path

from asr_ablations.comparison.derived_tables import word_frequencies
from asr_ablations.data.description import count_words, training_counts
from asr_ablations.data.utterances import Utterance, Utterances
from asr_ablations.report.training_report import sections
from asr_verdicts.arms import Arm
from asr_verdicts.record import DataRecord, Record, UtteranceRow
from tests.helpers.comparison import comparison

COUNTS = {"zebra": 0, "yak": 1, "gnu": 2, "cow": 9, "dog": 10}


def run(*texts: tuple[str, str], counts: dict[str, int] | None = COUNTS) -> Record:
    rows: list[UtteranceRow] = [
        {
            "set": "test", "id": str(number), "speaker": "s", "reference": reference, "hypothesis": hypothesis,
            "words": len(reference.split()), "substitutions": 0, "deletions": 0, "insertions": 0,
        }
        for number, (reference, hypothesis) in enumerate(texts)
    ]  # fmt: skip
    return Record(Path("run"), {"seed": 0}, [], utterances=rows, data=DataRecord(training_counts=counts))


def test_a_word_is_wrong_where_its_place_has_another_or_none() -> None:
    """An insertion belongs to no word of the reference."""
    first = run(("zebra yak dog", "zebra jak dog"), ("cow dog", "cow well dog"))
    second = run(("zebra yak dog", "zebra yak"), ("cow dog", "now dog"))
    (row,) = word_frequencies([Arm("arm", [first, second])], ["test"])
    assert row.words == [1, 1, 1, 2]
    assert row.wrong == [0, 1 / 2, 1 / 2, 1 / 4]
    for runs in (
        [run(("cow dog", "dog"))],  # training has all of them often
        [run(("yak", "")), run(("yak", ""), counts=None)],
        [run(("yak unknown", ""))],  # of another set than those of the run
    ):
        assert word_frequencies([Arm("arm", runs)], ["test"]) == []


def test_the_section_names_the_share_and_the_words(tmp_path: Path) -> None:
    arms = [Arm("greedy", [run(("zebra yak dog", "zebra jak dog"))]), Arm("words", [run(("zebra yak dog", "yak dog"))])]
    whole = comparison(tmp_path)
    shown = sections(replace(whole, arms=arms, design=replace(whole.design, sets=["test"]), verdicts=[]))
    (section,) = (one for one in shown if one.heading == "Wrong words by their frequency in training")
    assert section.rows == [
        ["greedy", "test", "0.0 % of 1", "100.0 % of 1", "–", "0.0 % of 1"],
        ["words", "test", "100.0 % of 1", "0.0 % of 1", "–", "0.0 % of 1"],
    ]


def test_training_is_counted_for_the_words_of_the_other_sets_alone() -> None:
    def spoken(*texts: str) -> Utterances:
        return Utterances.convert([Utterance(str(n), "s", Path("a"), 0.0, 1.0, text) for n, text in enumerate(texts)])

    counts = training_counts(
        count_words(spoken("a cow and a dog", "a cow")), map(count_words, [spoken("cow zebra"), spoken("dog cow")])
    )
    assert counts == {"cow": 2, "dog": 1, "zebra": 0}
    assert list(counts) == sorted(counts)
