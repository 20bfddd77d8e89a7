"""Downloads from a real server: broken and resumed, verified, unpacked without leaving the folder."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

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


def test_a_broken_download_is_resumed_and_what_was_whole_already_only_verified(server: Server, tmp_path: Path) -> None:
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
    (tmp_path / "a.tar.gz").unlink()
    server.requests.clear()
    (tmp_path / "a.tar.gz.part").write_bytes(CONTENT)
    assert fetched(server, tmp_path) == CONTENT
    assert ranges(server) == ["bytes=100000-"]


def test_a_wrong_checksum_and_a_file_that_is_not_there_are_reported(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz.part").write_bytes(b"of something else" * 100)
    with pytest.raises(UsageError, match=f"checksum [0-9a-f]{{64}}, expected {sha256(CONTENT)}; the file was removed"):
        fetched(server, tmp_path)
    assert list(tmp_path.iterdir()) == []
    server.requests.clear()
    with pytest.raises(UsageError, match=r"cannot download http://127.*/b\.tar\.gz: HTTP Error 404"):
        download(f"{server.address}/b.tar.gz", tmp_path / "b.tar.gz", checksum=None, setting="data.download.address")
    assert len(server.requests) == 1
    assert list(tmp_path.iterdir()) == []


def test_librispeech_is_downloaded_and_reads_as_where_it_came_from(server: Server, tmp_path: Path) -> None:
    """Genuine utterances under the names of LibriSpeech's archives."""
    root = shared_data("librispeech-mini/LibriSpeech")
    sources = {"train-clean-100": "train-clean-5", "dev-clean": "dev-clean-2", "test-clean": "test-clean"}
    server.files = {f"{split}.tar.gz": archive(root / source, split) for split, source in sources.items()}
    checksums = {split: sha256(server.files[f"{split}.tar.gz"]) for split in sources}
    sets = {"train": "clean100", "validation": ["dev-clean"], "test": ["test-clean"]}
    download = {"address": server.address, "sha256": checksums}
    corpus = component("data", "librispeech", root=str(tmp_path / "new" / "root"), download=download, **sets)
    corpus.fetch()
    for split, source in sources.items():
        original = component("data", "librispeech", root=str(root), train=[source]).read(source)
        assert [(u.id, u.text, u.content) for u in corpus.read(split)] == [(u.id, u.text, u.content) for u in original]
    assert {path.name for path in (tmp_path / "new" / "root").iterdir()} == {*sources}
    server.requests.clear()
    corpus.fetch()
    assert server.requests == [], "present splits are not requested again"


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
    content = server.files["mls_polish_opus.tar.gz"] = polish(tiny_corpus, tmp_path / "source", "opus")
    sums = {"mls_polish_opus": hashlib.md5(content).hexdigest()}
    download = {"address": server.address, "archive": "mls_polish", "md5": sums}
    corpus = component("data", "mls", root=str(tmp_path / "root"), ending="opus", download=download)
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


def test_an_archive_that_would_write_elsewhere_is_refused_and_leaves_nothing(tiny_corpus: Path, tmp_path: Path) -> None:
    for name, kind, target in (
        ("LibriSpeech/s/../../../outside", tarfile.REGTYPE, ""), ("/tmp/w-outside", tarfile.REGTYPE, ""),
        ("LibriSpeech/s/link", tarfile.SYMTYPE, "../../.."), ("LibriSpeech/s/link", tarfile.LNKTYPE, "../outside"),
        ("LibriSpeech/s/device", tarfile.CHRTYPE, ""),
    ):  # fmt: skip
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        path = tmp_path / "root" / "s.tar.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(archive(tiny_corpus / "test", "s", (member, b"evil" if kind == tarfile.REGTYPE else b"")))
        with pytest.raises(UsageError, match=r"because '.*' leads out of it, or is a link or device"):
            unpack(path, "LibriSpeech", ["s"], path.parent)
        assert list(tmp_path.rglob("*")) == [path.parent, path]
    assert not Path("/tmp/w-outside").exists()
