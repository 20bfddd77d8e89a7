"""What was declared of a sweep, and the history of looks at it."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from asr_ablations.runs.reader import UnreadableFileError
from asr_ablations.runs.sweep_history import Look, declared, evidence, looks, record_look
from asr_ablations.tools.files import write_json

LOOK = Look("2026-01-01T00:00:00+00:00", {"lstm": 3, "gru": 2}, evidence(["a", "b"]), True, "lstm", "wer", "test", "t")


def launch(arms: list[str], search: bool) -> dict[str, object]:
    return {"started": "2026-01-01T00:00:00+00:00", "command": ["train.py"], "arms": arms, "search": search}


@pytest.mark.parametrize(
    ("launches", "expected"),
    [
        ([launch(["a", "b"], search=False), launch(["c"], search=False)], {"a", "b"}),
        ([launch(["a"], search=True), launch(["b"], search=False)], None),
        ([], None),
        ([{"arms": ["a"]}], None),
        ("damaged", None),
    ],
)
def test_the_first_launch_is_what_was_declared(launches: object, expected: set[str] | None, tmp_path: Path) -> None:
    write_json(tmp_path / "sweep.json", {"launches": launches, "arms": []})
    assert declared(tmp_path) == expected


def test_without_a_manifest_nothing_was_declared(tmp_path: Path) -> None:
    assert declared(tmp_path) is None


def test_looks_are_kept_in_their_order(tmp_path: Path) -> None:
    later = replace(LOOK, runs=evidence(["a", "b", "c"]), arms={"lstm": 3, "gru": 3})
    assert looks(tmp_path) == []
    assert [record_look(tmp_path, look) for look in (LOOK, later)] == [None, None]
    assert looks(tmp_path) == [LOOK, later]


def test_the_same_question_to_the_same_evidence_is_one_look(tmp_path: Path) -> None:
    other_question = replace(LOOK, baseline="gru")
    for look in (LOOK, replace(LOOK, when="2026-02-02T00:00:00+00:00"), other_question):
        assert record_look(tmp_path, look) is None
    assert looks(tmp_path) == [LOOK, other_question]


def test_evidence_is_the_set_of_runs() -> None:
    assert evidence(["a", "b"]) == evidence(["b", "a"])
    assert len({evidence(ids) for ids in (["a", "b"], ["ab"], ["a"], [], ["a", "b", "c"])}) == 5


def look_at(request: tuple[Path, int]) -> str | None:
    folder, number = request
    return record_look(folder, replace(LOOK, runs=evidence([str(number)])))


def test_no_look_is_lost_between_several_processes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(3) as pool:
        assert list(pool.map(look_at, [(tmp_path, number) for number in range(12)])) == [None] * 12
    assert {look.runs for look in looks(tmp_path)} == {evidence([str(number)]) for number in range(12)}


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    """Permissions do not hold for root: a file where the folder of locks belongs refuses everybody."""
    (tmp_path / ".leases").touch()
    warning = record_look(tmp_path, LOOK)
    assert warning is not None
    assert "looks.json" in warning
    assert "File exists" in warning


@pytest.mark.parametrize("text", ["{", "[]", '{"looks": [{"when": "now"}]}', '{"looks": 3}'])
def test_a_damaged_history_is_no_empty_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "looks.json").write_text(text)
    with pytest.raises(UnreadableFileError):
        looks(tmp_path)
    assert "not recorded" in str(record_look(tmp_path, LOOK))
    assert (tmp_path / "looks.json").read_text() == text
