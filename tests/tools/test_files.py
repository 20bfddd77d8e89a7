"""Files that are whole whenever they are there."""

import hashlib
import re
from pathlib import Path

import pytest

from asr_ablations.tools.errors import exit_code_of, of_the_system
from asr_ablations.tools.files import folder_name, sha256, whole_file, write, write_csv


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_an_error_of_the_disk_names_the_file_and_not_its_temporary_name(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"

    def write_much() -> None:
        with whole_file(path) as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_text("x" * 100_000)

    with pytest.raises(OSError, match=r"No space left") as raised:
        write_much()
    assert of_the_system(raised.value) == f"{path}: No space left on device"
    assert exit_code_of(raised.value) == 1
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as refused:
        write(tmp_path / "file" / "a.txt", "x")
    assert of_the_system(refused.value) == f"{tmp_path / 'file' / 'a.txt'}: Not a directory"
    assert exit_code_of(refused.value) == 2
    assert of_the_system(OSError("of a library, without a reason")) is None


def test_names_of_folders_are_safe_short_and_their_own() -> None:
    assert folder_name("rnn_type") == "rnn_type"
    names = ["a/b", "a b", "a-b", "实验一", "实验二", "x" * 300, "x" * 301, ".", ""]
    folders = [folder_name(name) for name in names]
    assert len({*folders}) == len(names)
    assert max(map(len, folders)) <= 100
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]+", folder) for folder in folders)


def test_half_a_character_of_a_name_is_spelled_out(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "\udcff")
    write_csv(tmp_path / "a.csv", [{"a": "\udcff"}])
    assert (tmp_path / "a.txt").read_text() == "\\udcff"
    assert (tmp_path / "a.csv").read_text() == "a\n\\udcff\n"
