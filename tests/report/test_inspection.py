"""One run from the inside: which utterances, where they err, what is taken for what, and how it is drawn."""

import io
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from asr_ablations.metrics.error_counts import align, word_errors
from asr_ablations.report.figures.inspected import as_address, draw_inspected
from asr_ablations.report.inspection import (
    Inspected,
    chosen,
    error_spans,
    letter_confusions,
    word_confusions,
)


def row(id_: str, reference: str, hypothesis: str, seconds: float = 1.0) -> dict[str, Any]:
    """As utterances.csv has it, as far as it is read here."""
    words = word_errors(reference, hypothesis)
    return {
        "id": id_, "set": "test", "reference": reference, "hypothesis": hypothesis, "duration": seconds,
        "words": words.total, "substitutions": words.substitutions, "deletions": words.deletions,
        "insertions": words.insertions,
    }  # fmt: skip


ROWS = [
    row("a", "a cab", "a cab"),
    row("b", "dad had a cab", "dad had a cab"),
    row("c", "a bad bed", "a bad dad"),
    row("d", "be a dab", "cab"),
    row("e", "a bee", "dad cab"),
]


def test_the_worst_the_median_and_the_best_are_chosen_each_once() -> None:
    """Among equals the longest."""
    assert {kind: chosen_row["id"] for kind, chosen_row in chosen(ROWS).items()} == {
        "worst": "d", "median": "c", "best": "b",
    }  # fmt: skip
    assert list(chosen(ROWS[:1])) == ["worst"]
    assert chosen([]) == {}


def seen(reference: str, hypothesis: str, spans: list[tuple[float, float]]) -> Inspected:
    log_probs = np.log(np.full((10, 4), 0.02))
    log_probs[:, 0] = np.log(0.94)
    log_probs[3] = np.log([0.04, 0.9, 0.03, 0.03])
    pairs = align(reference.split(), hypothesis.split())
    return Inspected("worst", row("d", reference, hypothesis), pairs, np.eye(20, 8), log_probs, list("ab "), 0.1, spans)


def test_errors_stand_where_the_hypothesis_has_them() -> None:
    """A word that is missing stands between its neighbours, at the end until the end."""
    spans = error_spans(seen("a bad bed cab", "a dad cab now", [(0.0, 0.1), (0.2, 0.4), (0.6, 0.8), (0.8, 0.9)]))
    assert [(tuple(map(float, span)), text) for span, text in spans] in (
        [((0.2, 0.4), "bad → dad"), ((0.4, 0.6), "bed → –"), ((0.8, 0.9), "– → now")],
        [((0.1, 0.2), "bad → –"), ((0.2, 0.4), "bed → dad"), ((0.8, 0.9), "– → now")],
    )
    assert error_spans(seen("a cab", "a", [(0.0, 0.2)])) == [((0.2, 1.0), "cab → –")]
    assert error_spans(seen("a", "a", [(0.0, 0.2)])) == []


def test_confusions_are_counted_the_most_frequent_first() -> None:
    rows = [row("a", "a cab", "a dab"), row("b", "cab", "dab"), row("c", "be", "b e")]
    assert word_confusions(rows)[0] == {"reference": "cab", "hypothesis": "dab", "times": 2}
    assert letter_confusions(rows) == [
        {"reference": "c", "hypothesis": "d", "times": 2},
        {"reference": "–", "hypothesis": "␣", "times": 1},
    ]


@pytest.mark.parametrize("hypothesis", ["a", "", "b a"])
def test_an_utterance_is_drawn(hypothesis: str, tmp_path: Path) -> None:
    spans = [(0.1 * number, 0.1 * number + 0.1) for number in range(len(hypothesis.split()))]
    utterance = seen("a", hypothesis, spans)
    paths = draw_inspected([utterance], tmp_path)
    assert {path.name for path in paths} == {f"utterance_worst.{kind}" for kind in ("png", "svg", "pdf")}
    text = (tmp_path / "utterance_worst.svg").read_text()
    assert "posterior, best path" in text
    if hypothesis != "a":
        assert "→" in text
    kind, _, content = as_address(utterance).partition(",")
    assert kind == "data:image/png;base64"
    assert np.ptp(imread(io.BytesIO(b64decode(content)))[..., :3]) > 0.5
