"""Utterances in columns: the same as a list of them, in a fraction of the memory."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from asr_ablations.data.audio import FileState
from asr_ablations.data.utterances import Columns, Utterance, Utterances

TEXT = "zażółć gęślą jaźń and so on " * 6
LISTED = [
    Utterance(
        f"u-{i}", "s" * (i % 3), Path(f"/a/{name}.flac"), i / 7, 1.5 * i, TEXT[:i], "c" * (i % 2), "x: y" * (i == 3)
    )
    for i, name in enumerate(["a", "b", "ż", "no utf-8 \udcff", "e", "f", "g"])
]


def test_columns_hold_what_a_list_holds() -> None:
    utterances = Utterances.of(LISTED)
    assert [*utterances] == LISTED
    assert utterances == LISTED
    assert utterances != LISTED[1:]
    assert utterances[-1] == LISTED[-1]
    with pytest.raises(IndexError):
        utterances[7]
    assert utterances[2:5] == LISTED[2:5]
    assert utterances[::-1].take(np.array([0, 6])) == [LISTED[6], LISTED[0]]
    assert [*utterances.strings("audio")] == [str(u.audio) for u in LISTED]
    assert utterances.column("duration").tolist() == [u.duration for u in LISTED]
    assert utterances.has("fault").tolist() == [bool(u.fault) for u in LISTED]
    assert Utterances.of([]) == []
    assert Utterances.joined([]) == []


def test_parts_are_joined_and_some_replaced() -> None:
    states = [FileState(10**6 + i, 1_763_876_543_123_456_789 + i) for i in range(7)]
    utterances = Utterances.of(LISTED, states)
    joined = Utterances.joined([utterances[4:], Utterances.of([]), utterances[:2]])
    expected = [*LISTED[4:], *LISTED[:2]]
    assert joined == expected
    assert [*joined.strings("id")] == [u.id for u in expected]
    other = Utterance("other", "s", Path("o.wav"), 0.0, 2.0, "text")
    changed = joined.replaced({1: other, 4: LISTED[3]})
    assert changed == [expected[0], other, *expected[2:4], LISTED[3]]
    assert joined == expected
    assert [changed.state(i) for i in range(5)] == [states[i] for i in (4, 5, 6, 0, 1)], "every digit of a time in ns"
    assert changed.column("changed").tolist() == [states[i].changed for i in (4, 5, 6, 0, 1)]
    assert changed.has("fault").tolist() == [False] * 4 + [True]


def test_arrays_of_a_file_give_them_back(tmp_path: Path) -> None:
    columns = Columns.of(LISTED, [FileState(i, 2**62 + i) for i in range(7)])
    np.savez(tmp_path / "a.npz", **columns.arrays())
    with np.load(tmp_path / "a.npz") as file:
        again = Columns.from_arrays(file)
    assert [again.utterance(row) for row in range(7)] == LISTED
    assert again.numbers["changed"].tolist() == columns.numbers["changed"].tolist()


def test_they_take_a_few_hundred_bytes_each() -> None:
    """A text of 168 characters, a path of 60; a list of such utterances takes over 1,000."""
    tracemalloc.start()
    try:
        path = "/data/LibriSpeech/train-clean-360/1234/123456/1234-123456"
        listed = [Utterance(f"{i:06d}", "1234", Path(f"{path}-{i:04d}"), 0.0, 12.5, TEXT + str(i)) for i in range(3000)]
        as_list = tracemalloc.get_traced_memory()[0]
        utterances = Utterances.of(listed)
        del listed
        as_columns = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(utterances) == 3000
    assert as_columns / 3000 < 450 < as_list / 3000
