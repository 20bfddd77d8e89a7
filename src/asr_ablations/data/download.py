"""Downloading archives: interrupted downloads are resumed, complete ones verified and unpacked."""

import errno
import gzip
import hashlib
import http.client
import os
import re
import shutil
import tarfile
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypedDict
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.terminal import bar

ADDRESS = re.compile(r"(https?|ftp|file)://[^\s\x00-\x1f]+")
KINDS = {32: "MD5", 64: "SHA-256"}
"""Kinds of checksums, by number of hexadecimal digits."""
BLOCK = 1 << 18
TRIES = 4
"""Consecutive attempts without a new byte before the download fails."""
PAUSE = 1.0
"""Seconds before the second attempt; each pause is twice as long as the previous one."""
PATIENCE = 60.0
"""Seconds without data after which a connection counts as broken."""


class Download(TypedDict, total=False):
    """A source of archives. address: their folder; archive: one's name; sha256, md5: checksums by archive name."""

    address: str
    archive: str
    sha256: Mapping[str, str]
    md5: Mapping[str, str]


class Archive(NamedTuple):
    """<name>.tar.gz with a folder <inside>/<split> for each split; checksum: hexadecimal digits, None if unknown."""

    name: str
    inside: str
    splits: Sequence[str]
    checksum: str | None


def check_source(address: object, checksums: Mapping[str, object], digits: int) -> None:
    """Raise UsageError for an invalid address, or a checksum that does not have `digits` hexadecimal digits. checksums:
    by archive name.
    """
    if not isinstance(address, str) or not ADDRESS.fullmatch(address):
        raise choices(
            "data.download.address", address, "the address of a folder, as https://www.openslr.org/resources/12"
        )
    key = KINDS[digits].lower().replace("-", "")
    for name, checksum in checksums.items():
        if not re.fullmatch(f"[0-9a-f]{{{digits}}}", str(checksum)):
            raise choices(f"data.download.{key}.{name}", checksum, f"{digits} hexadecimal digits")


def fetch(archives: Sequence[Archive], root: Path, address: str) -> None:
    """Create <root>/<split> for every split in the archives. Archives are stored in `root` until they are unpacked.

    Raises UsageError if a download fails, or an archive is damaged or would write outside its folder.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(root / ".prepare.lock", f"waiting for another process to prepare {root}"):
            for name, inside, splits, checksum in archives:
                if missing := [split for split in splits if not (root / split).exists()]:
                    file = root / f"{name}.tar.gz"
                    source = f"{address.rstrip('/')}/{file.name}"
                    download(source, file, checksum=checksum, setting="data.download.address")
                    unpack(file, inside, missing, root)
                    file.unlink()
    except OSError as error:
        raise UsageError(f"data.root={root}: {error.strerror or error}") from error


def download(address: str, target: Path, *, checksum: str | None, setting: str, size: int | None = None) -> None:
    """Download `address` to `target`, unless it exists, resuming from <target>.part.

    checksum, size (in bytes): None if unknown. setting: the config key for the address, for messages. Raises UsageError
    if the server does not provide the file, or if it is not the expected one, which is then removed.
    """
    if target.exists():
        return
    part, failures = target.with_name(f"{target.name}.part"), 0
    while True:
        before = _size(part)
        try:
            _fetch_rest(address, part)
            break
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures = 0 if _size(part) > before else failures + 1
            is_final = isinstance(error, ValueError) or getattr(error, "errno", None) == errno.ENOSPC
            is_final |= isinstance(error, HTTPError) and error.code < 500 and error.code not in (408, 429)
            if failures >= TRIES or is_final:
                remedy = f"; {part} is kept, and the same command resumes" if _size(part) else ""
                raise UsageError(f"cannot download {address}: {error}{remedy}") from error
            time.sleep(PAUSE * 2**failures / 2)
    if difference := _describe_difference(part, checksum, size):
        part.unlink()
        raise UsageError(f"{address}: {difference}; the file was removed; try again, or set another {setting}")
    os.replace(part, target)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _fetch_rest(address: str, part: Path) -> None:
    """Append the missing bytes to `part`. Raises OSError if the connection ends early."""
    start = _size(part)
    try:
        response = urlopen(Request(address, headers={"Range": f"bytes={start}-"} if start else {}), timeout=PATIENCE)
    except HTTPError as error:
        if error.code == 416 and start:  # the file is already complete
            return
        raise
    with response:
        start = start if response.status == 206 else 0  # a server without resumption sends the whole file
        rest = int(response.headers.get("Content-Length") or 0)
        if rest > (free := shutil.disk_usage(part.parent).free):
            raise OSError(errno.ENOSPC, f"needs {rest:,} bytes, and {free:,} are free", str(part))
        total = start + rest if rest else 0
        with part.open("ab" if start else "wb") as file, bar(part.stem, total, as_bytes=True) as advance:
            advance(start)
            while block := response.read(BLOCK):
                file.write(block)
                advance(len(block))
    if _size(part) < total:
        raise ConnectionError(f"the connection ended after {_size(part)} of {total} bytes")


def _describe_difference(part: Path, checksum: str | None, size: int | None) -> str:
    """Describe how a file differs from the expected one; "" if it does not."""
    if size is not None and _size(part) != size:
        return f"{_size(part)} bytes, expected {size}"
    if checksum is None:
        return ""
    kind = KINDS[len(checksum)]
    digest = hashlib.new(kind.replace("-", ""), usedforsecurity=False)
    with part.open("rb") as file, bar(f"verifying {part.stem}", _size(part), as_bytes=True) as advance:
        while block := file.read(BLOCK):
            digest.update(block)
            advance(len(block))
    return "" if digest.hexdigest() == checksum else f"{kind} {digest.hexdigest()}, expected {checksum}"


def unpack(archive: Path, inside: str, splits: Sequence[str], root: Path) -> None:
    """Unpack the archive's folders <inside>/<split> to <root>/<split>, each completely or not at all.

    Raises UsageError if the archive is damaged or lacks a folder, and removes it. Also raises UsageError if it contains
    a link, a device or a path outside its folder; then nothing is unpacked.
    """
    temporary = root / f".{splits[0]}.partial"
    shutil.rmtree(temporary, ignore_errors=True)  # left by a killed process
    try:
        _extract(archive, temporary)
        for split in splits:
            if not (temporary / inside / split).is_dir():
                raise EOFError(f"no folder {inside}/{split} in it")
        for split in splits:
            (temporary / inside / split).rename(root / split)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a disk error; errors from a damaged gzip file lack an errno
        archive.unlink()
        raise UsageError(
            f"{archive}: damaged: {error}; it was removed; try again, or set another data.download.address"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(archive: Path, folder: Path) -> None:
    # tarfile's gzip reader ignores the checksum; the gzip module checks it at the end
    size, position = archive.stat().st_size, 0
    with (
        bar(f"unpacking {archive.name}", size, as_bytes=True) as advance,
        archive.open("rb") as file,
        gzip.open(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as members,
    ):
        for member in members:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                raise UsageError(f"{archive}: refused, because {member.name!r} leads out of the target folder")
            if member.issparse() or not (member.isfile() or member.isdir()):
                raise UsageError(f"{archive}: refused, because {member.name!r} is a link, a device or sparse")
            members.extract(member, folder, filter="data")  # a second guard: tarfile also checks the path
            advance(file.tell() - position)
            position = file.tell()
        while plain.read(BLOCK):
            pass
