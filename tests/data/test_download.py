"""Downloads from a real server: broken and resumed, verified, unpacked without leaving the folder."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asr_ablations.data.download import download, unpack
from asr_verdicts.errors import UsageError
from tests.helpers.archive_server import Server, archive, serving, sha256
from tests.helpers.layouts import write_split
from tests.helpers.support import component, shared_data

CONTENT = np.random.default_rng(0).integers(0, 256, 100_000, dtype=np.uint8).tobytes()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        server.files["a.tar.gz"] = CONTENT
        yield server


def fetched(server: Server, folder: Path, checksum: str = sha256(CONTENT)) -> bytes:
    download(f"{server.address}/a.tar.gz", folder / "a.tar.gz", checksum=checksum, setting="data.download.address")
    return (folder / "a.tar.gz").read_bytes()


def ranges(server: Server) -> list[str | None]:
    return [requested for _, requested in server.requests]


def test_a_broken_download_is_resumed_by_the_next_command(server: Server, tmp_path: Path) -> None:
    server.breaks = [40_000]
    with pytest.raises(
        UsageError,
        match=r"ended after 40000 of 100000 bytes; .*a\.tar\.gz\.part is kept, and the same command continues",
    ):
        fetched(server, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz.part"]
    server.requests.clear()
    assert fetched(server, tmp_path) == CONTENT
    assert ranges(server) == ["bytes=40000-"]


def test_what_was_whole_already_is_only_verified(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz.part").write_bytes(CONTENT)
    assert fetched(server, tmp_path) == CONTENT
    assert ranges(server) == ["bytes=100000-"]


def test_a_wrong_checksum_is_reported_and_the_file_removed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz.part").write_bytes(b"of something else" * 100)
    with pytest.raises(UsageError, match=f"checksum [0-9a-f]{{64}}, expected {sha256(CONTENT)}; the file was removed"):
        fetched(server, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert fetched(server, tmp_path) == CONTENT


def test_a_file_missing_on_the_server_is_reported_at_once(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot download http://127.*/b\.tar\.gz: HTTP Error 404"):
        download(f"{server.address}/b.tar.gz", tmp_path / "b.tar.gz", checksum=None, setting="data.download.address")
    assert len(server.requests) == 1
    assert list(tmp_path.iterdir()) == []


MINI = {"train-clean-100": "train-clean-5", "dev-clean": "dev-clean-2", "test-clean": "test-clean"}
"""Genuine utterances under the names of LibriSpeech's archives."""


@pytest.fixture(scope="module")
def archives() -> dict[str, bytes]:
    root = shared_data("librispeech-mini/LibriSpeech")
    return {f"{split}.tar.gz": archive(root / source, split) for split, source in MINI.items()}


def librispeech(server: Server, root: Path, archives: dict[str, bytes]) -> Any:
    server.files = dict(archives)
    checksums = {name.removesuffix(".tar.gz"): sha256(content) for name, content in archives.items()}
    sets = {"train": "clean100", "validation": ["dev-clean"], "test": ["test-clean"]}
    download = {"address": server.address, "sha256": checksums}
    return component("data", "librispeech", root=str(root), download=download, **sets)


def test_librispeech_is_downloaded_and_reads_as_where_it_came_from(
    server: Server, tmp_path: Path, archives: dict[str, bytes]
) -> None:
    corpus = librispeech(server, tmp_path / "new" / "root", archives)
    corpus.fetch()
    root = shared_data("librispeech-mini/LibriSpeech")
    for split, source in MINI.items():
        original = component("data", "librispeech", root=str(root), train=[source]).read(source)
        assert [(u.id, u.text, u.content) for u in corpus.read(split)] == [(u.id, u.text, u.content) for u in original]
    assert {path.name for path in (tmp_path / "new" / "root").iterdir()} == {*MINI}
    server.requests.clear()
    corpus.fetch()
    assert server.requests == [], "present splits are not requested again"


def mls(server: Server, root: Path, content: bytes, ending: str = "flac", md5: str | None = None) -> Any:
    name = "mls_polish_opus" if ending == "opus" else "mls_polish"
    server.files = {f"{name}.tar.gz": content}
    sums = {name: hashlib.md5(content).hexdigest() if md5 is None else md5}
    download = {"address": server.address, "archive": "mls_polish", "md5": sums}
    return component("data", "mls", root=str(root), ending=ending, download=download)


def polish(tiny_corpus: Path, folder: Path, ending: str = "flac", named: str = "") -> bytes:
    """An archive laid out as Multilingual LibriSpeech's, of the tiny corpus."""
    name = "mls_polish_opus" if ending == "opus" else "mls_polish"
    laid_out = component("data", "mls", root=str(folder / name), ending=ending)
    source = component("data", "an4", root=str(tiny_corpus), held_out=1)
    for split in ("train", "dev", "test"):
        write_split(laid_out, split, source.read(split))
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        tar.add(folder / name, named or name)
    return written.getvalue()


def test_mls_comes_in_one_archive(server: Server, tmp_path: Path, tiny_corpus: Path) -> None:
    corpus = mls(server, tmp_path / "root", polish(tiny_corpus, tmp_path / "source", "opus"), "opus")
    server.breaks = [1000]
    with pytest.raises(UsageError, match="the same command continues"):
        corpus.fetch()
    corpus.fetch()
    assert [path for path, _ in server.requests] == ["/resources/12/mls_polish_opus.tar.gz"] * 2
    assert ranges(server) == [None, "bytes=1000-"]
    source = component("data", "an4", root=str(tiny_corpus), held_out=1)
    for split in ("train", "dev", "test"):
        assert [u.text for u in corpus.read(split)] == [u.text for u in source.read(split)]
    assert {path.name for path in (tmp_path / "root").iterdir()} == {"train", "dev", "test"}
    server.requests.clear()
    corpus.fetch()
    assert server.requests == []


def test_what_was_once_wrong_is_removed_and_then_fetched_anew(
    server: Server, tmp_path: Path, tiny_corpus: Path
) -> None:
    """No checksum of the archive is known: only unpacking shows the damage."""
    whole = polish(tiny_corpus, tmp_path / "source", named="mls_other")
    server.files = {"mls_other.tar.gz": whole}
    download = {"address": server.address, "archive": "mls_other"}
    corpus = component("data", "mls", root=str(tmp_path / "root"), download=download)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "mls_other.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"damaged: .*; it was removed; try again"):
        corpus.fetch()
    assert list((tmp_path / "root").iterdir()) == []
    corpus.fetch()
    assert {path.name for path in (tmp_path / "root").iterdir()} == {"train", "dev", "test"}


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


EVIL = {
    "parent": member("LibriSpeech/s/../../../outside"),
    "absolute": member("/tmp/w-outside"),
    "symbolic link": member("LibriSpeech/s/link", tarfile.SYMTYPE, "../../.."),
    "hard link": member("LibriSpeech/s/link", tarfile.LNKTYPE, "../outside"),
    "device": member("LibriSpeech/s/device", tarfile.CHRTYPE),
}


@pytest.mark.parametrize("kind", EVIL)
def test_an_archive_that_would_write_elsewhere_is_refused_and_leaves_nothing(
    tiny_corpus: Path, tmp_path: Path, kind: str
) -> None:
    content = b"evil" if EVIL[kind].type == tarfile.REGTYPE else b""
    path = tmp_path / "root" / "s.tar.gz"
    path.parent.mkdir()
    path.write_bytes(archive(tiny_corpus / "test", "s", (EVIL[kind], content)))
    with pytest.raises(UsageError, match=r"because '.*' leads out of it, or is a link or device"):
        unpack(path, "LibriSpeech", ["s"], path.parent)
    assert list(tmp_path.rglob("*")) == [path.parent, path]
    assert not Path("/tmp/w-outside").exists()
