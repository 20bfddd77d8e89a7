"""Files that are whole whenever they are there."""

import hashlib
from pathlib import Path

import pytest

from asr_ablations.tools.files import sha256, whole_file, write_csv


def test_what_fails_in_the_middle_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("before")
    with pytest.raises(ValueError, match="not in fieldnames"):  # after the head and the first row are written
        write_csv(path, [{"a": 1}, {"b": 2}])
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_at_the_name_before_the_file_is_whole(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a.npz", ".npz") as temporary:
        temporary.write_bytes(b"values")
        assert not (tmp_path / "a.npz").exists()
        assert temporary.suffix == ".npz"
    assert (tmp_path / "a.npz").read_bytes() == b"values"


def test_a_table_has_its_columns_in_order(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [{"b": 1, "a": "x, y"}])
    assert (tmp_path / "t.csv").read_text() == 'b,a\n1,"x, y"\n'


def test_the_hash_is_the_librarys_over_pieces(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    (tmp_path / "f").write_bytes(content)
    assert sha256(tmp_path / "f") == hashlib.sha256(content).hexdigest()
