"""Download archives, resuming interrupted downloads, and then verify and unpack them."""

import gzip
import hashlib
import http.client
import os
import re
import shutil
import tarfile
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
KINDS = {32: "md5", 64: "sha256"}
"""Hash algorithms of checksums, by number of hexadecimal digits."""
BLOCK = 1 << 18
PATIENCE = 60.0
"""Seconds without data after which a download fails."""


class Download(TypedDict, total=False):
    """Where to download archives: address of their folder, name of one archive, and checksums by archive name."""

    address: str
    archive: str
    sha256: Mapping[str, str]
    md5: Mapping[str, str]


class Archive(NamedTuple):
    """An archive <name>.tar.gz that contains a folder <inside>/<split> for each split. checksum: None if unknown."""

    name: str
    inside: str
    splits: Sequence[str]
    checksum: str | None


def check_source(address: object, checksums: Mapping[str, object], digits: int) -> None:
    """Raise UsageError for an invalid address, or for a checksum that does not have `digits` hexadecimal digits."""
    if not isinstance(address, str) or not ADDRESS.fullmatch(address):
        raise choices(
            "data.download.address", address, "the address of a folder, such as https://www.openslr.org/resources/12"
        )
    for name, checksum in checksums.items():
        if not re.fullmatch(f"[0-9a-f]{{{digits}}}", str(checksum)):
            raise choices(f"data.download.{KINDS[digits]}.{name}", checksum, f"{digits} hexadecimal digits")


def fetch(archives: Sequence[Archive], root: Path, address: str) -> None:
    """Create <root>/<split> for every split in the archives. Raises UsageError if a download or unpacking fails."""
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
    """Download `address` to `target` unless `target` exists. An interrupted download resumes from <target>.part.

    checksum, size (in bytes): None if unknown; setting: config key of the address, for error messages. Raises
    UsageError if the download fails. Also raises it and deletes the file if the checksum or size is wrong.
    """
    if target.exists():
        return
    part = target.with_name(f"{target.name}.part")
    try:
        _fetch_rest(address, part)
    except (OSError, ValueError, http.client.HTTPException) as error:
        remedy = f"; {part} is kept, and the same command continues" if part.exists() else ""
        raise UsageError(f"cannot download {address}: {error}{remedy}") from error
    expected = checksum or size
    actual = _hash(part, checksum) if checksum else part.stat().st_size
    if expected is not None and actual != expected:
        part.unlink()
        difference = f"{'checksum' if checksum else 'bytes'} {actual}, expected {expected}"
        raise UsageError(f"{address}: {difference}; the file was removed; try again, or set another {setting}")
    os.replace(part, target)


def _fetch_rest(address: str, part: Path) -> None:
    """Download the bytes that the file `part` still lacks. Raises OSError if the connection ends early."""
    start = part.stat().st_size if part.exists() else 0
    try:
        response = urlopen(Request(address, headers={"Range": f"bytes={start}-"} if start else {}), timeout=PATIENCE)
    except HTTPError as error:
        if error.code == 416 and start:  # the file is already complete
            return
        raise
    with response:
        start = start if response.status == 206 else 0  # a server that cannot resume sends the whole file
        total = start + int(response.headers.get("Content-Length") or 0)
        with part.open("ab" if start else "wb") as file, bar(part.stem, total, as_bytes=True) as advance:
            advance(start)
            while block := response.read(BLOCK):
                file.write(block)
                advance(len(block))
    if (size := part.stat().st_size) < total:
        raise ConnectionError(f"the connection ended after {size} of {total} bytes")


def _hash(path: Path, checksum: str) -> str:
    """Hash a file with the algorithm that produced `checksum`."""
    digest = hashlib.new(KINDS[len(checksum)], usedforsecurity=False)
    with path.open("rb") as file, bar(f"verifying {path.stem}", path.stat().st_size, as_bytes=True) as advance:
        while block := file.read(BLOCK):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def unpack(archive: Path, inside: str, splits: Sequence[str], root: Path) -> None:
    """Unpack each folder <inside>/<split> of an archive to <root>/<split>, completely or not at all.

    Raises UsageError and deletes the archive if it is damaged or lacks a folder. Also raises UsageError, without
    unpacking anything, if the archive contains a link, a device or a path that leads out of it.
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
            raise  # a disk error: errors about a damaged gzip file have no errno
        archive.unlink()
        raise UsageError(
            f"{archive}: damaged: {error}; it was removed; try again, or set another data.download.address"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(archive: Path, folder: Path) -> None:
    # the gzip module checks the checksum at the end of the file, which tarfile's own reader does not
    with (
        bar(f"unpacking {archive.name}", archive.stat().st_size, as_bytes=True) as advance,
        archive.open("rb") as file,
        gzip.open(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as members,
    ):
        position = 0
        for member in members:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
                raise UsageError(f"{archive}: refused, because {member.name!r} leads out of it, or is a link or device")
            members.extract(member, folder, filter="data")
            advance(file.tell() - position)
            position = file.tell()
        while plain.read(BLOCK):
            pass
