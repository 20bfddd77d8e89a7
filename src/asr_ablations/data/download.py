"""Files from the network: resumed where a connection broke, and verified before they get their name."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from asr_ablations.tools.machine import one_at_a_time
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.terminal import bar

ADDRESS = re.compile(r"(https?|ftp|file)://[^\s\x00-\x1f]+")
BLOCK = 1 << 18
TRIES = 4
"""Attempts in a row that may bring nothing before the download fails."""
PAUSE = 1.0
"""Seconds before the second attempt; each further pause is twice as long."""
PATIENCE = 60.0
"""Seconds without a byte after which a connection counts as broken."""
RESERVE = 1 << 28
"""Bytes of a disk that no download and no archive takes."""


class DamagedError(UsageError):
    """An archive is not what it should be: it was cut, or is another file, such as the login page of a network."""


def check_source(address: object, checksums: Mapping[str, object], digits: int) -> None:
    """Raises UsageError for an address that is none, and for a checksum that has not so many hexadecimal digits, by
    its key below data.download.
    """
    if not isinstance(address, str) or not ADDRESS.fullmatch(address):
        raise choices(
            "data.download.address", address, "the address of a folder, as https://www.openslr.org/resources/12"
        )
    kind = {32: "md5", 64: "sha256"}[digits]
    for name, checksum in checksums.items():
        if not re.fullmatch(f"[0-9a-f]{{{digits}}}", str(checksum)):
            raise choices(f"data.download.{kind}.{name}", checksum, f"{digits} hexadecimal digits")


def download(
    address: str,
    target: Path,
    *,
    sha256: str | None,
    setting: str,
    size: int | None = None,
    md5: str | None = None,
) -> None:
    """Download `address` to `target`, unless it exists, and resume what an earlier attempt left in <target>.part.

    sha256, md5, size: the expected checksums and bytes, None where they are not known. setting: the key of the config
    that names another address, for the message. torch.hub.download_url_to_file, which torchaudio's datasets use,
    discards what a broken download has brought.
    Raises UsageError if the server does not provide the file, or if it differs from what is expected; such a file is
    removed.
    """
    if target.exists():
        return
    part = target.with_name(f"{target.name}.part")
    failures = 0
    while True:
        before = _size(part)
        try:
            _fetch_rest(address, part)
            break
        except (OSError, ValueError, http.client.HTTPException) as error:
            failures = 0 if _size(part) > before else failures + 1
            if failures >= TRIES or _is_final(error):
                kept = f"; {part} is kept, and the same command continues it" if _size(part) else ""
                raise UsageError(f"cannot download {address}: {error}{kept}") from error
            time.sleep(PAUSE * 2**failures / 2)
    if differences := _differences(part, {"sha256": sha256, "md5": md5}, size):
        part.unlink()
        raise UsageError(f"{address}: {differences}; the file was removed: try again, or another {setting}")
    os.replace(part, target)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_final(error: Exception) -> bool:
    """Return whether another attempt would end the same way."""
    if isinstance(error, HTTPError):
        return 400 <= error.code < 500 and error.code not in (408, 429)
    no_address = isinstance(error, ValueError)
    return no_address or getattr(error, "errno", None) in (errno.ENOSPC, errno.EACCES, errno.EDQUOT, errno.EROFS)


def _fetch_rest(address: str, part: Path) -> None:
    """Append the missing bytes. Raises OSError if the connection ends before the file does."""
    start = _size(part)
    request = Request(address, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urlopen(request, timeout=PATIENCE) as response:
            start = start if response.status == 206 else 0  # a server that cannot resume sends the whole file
            length = int(response.headers.get("Content-Length") or 0)
            total = start + length if length else 0
            _append(response, part, start, total)
    except HTTPError as error:
        # 416: nothing is left to send. If the part is longer than the server's file, it belongs to another file.
        complete = re.search(r"/(\d+)$", error.headers.get("Content-Range") or "")
        if error.code != 416 or complete is None:
            raise
        if int(complete[1]) != start:
            part.unlink()
            _fetch_rest(address, part)
        return
    if total and _size(part) < total:
        raise ConnectionError(f"broke off after {_size(part)} of {total} bytes")


def _append(response: HTTPResponse, part: Path, start: int, total: int) -> None:
    """Write the response to the part from byte `start` on. Raises OSError for more than the disk has room for."""
    room = shutil.disk_usage(part.parent).free - RESERVE
    if total - start > room:
        raise OSError(errno.ENOSPC, f"{total - start:,} bytes are needed, and {max(0, room):,} are free", str(part))
    written = 0
    with part.open("ab" if start else "wb") as file, bar(part.stem, total, as_bytes=True) as advance:
        advance(start)
        while block := response.read(BLOCK):
            written += len(block)
            if written > room:
                raise OSError(errno.ENOSPC, f"only {max(0, room):,} bytes are free", str(part))
            file.write(block)
            advance(len(block))


def _differences(part: Path, checksums: Mapping[str, str | None], size: int | None) -> str:
    """Describe how the file differs from what is expected, "" if it does not."""
    if size is not None and _size(part) != size:
        return f"{_size(part)} bytes, expected {size}"
    return "; ".join(filter(None, (_unlike(part, kind, sum_) for kind, sum_ in checksums.items() if sum_ is not None)))


def _unlike(part: Path, kind: str, expected: str) -> str:
    digest = hashlib.new(kind, usedforsecurity=False)
    with part.open("rb") as file, bar(f"verifying {part.stem}", _size(part), as_bytes=True) as advance:
        while block := file.read(BLOCK):
            digest.update(block)
            advance(len(block))
    names = {"sha256": "SHA-256", "md5": "MD5"}
    return "" if digest.hexdigest() == expected else f"{names[kind]} {digest.hexdigest()}, expected {expected}"


def fetch(splits: Sequence[str], root: Path, *, address: str, sha256: Mapping[str, str]) -> None:
    """Create <root>/<split> for each split, from LibriSpeech's <split>.tar.gz. Its archive lies beside it until it is
    unpacked.

    Raises UsageError for a split without an archive, a download that fails, and an archive that would write outside
    its folder.
    """
    for split in splits:
        if split not in sha256:
            raise choices("split", split, f"a folder in {root}, or one that can be downloaded: {', '.join(sha256)}")
    if not splits:
        return
    with _alone(root):
        for split in splits:
            if not (root / split).exists():
                _fetch_archive(address, root / f"{split}.tar.gz", "LibriSpeech", [split], root, sha256=sha256[split])


def fetch_together(splits: Sequence[str], root: Path, *, address: str, name: str, md5: str | None) -> None:
    """Create <root>/<split> for each split, from the one archive <name>.tar.gz, which holds all of them in a folder of
    its name. It lies beside them until it is unpacked. md5: of the archive; None where it is not known.

    Raises UsageError as fetch.
    """
    if not splits:
        return
    with _alone(root):
        if missing := [split for split in splits if not (root / split).exists()]:
            _fetch_archive(address, root / f"{name}.tar.gz", name, missing, root, md5=md5)


def _fetch_archive(
    address: str,
    archive: Path,
    inside: str,
    splits: Sequence[str],
    root: Path,
    *,
    sha256: str | None = None,
    md5: str | None = None,
) -> None:
    """Download and unpack an archive. One that an earlier attempt has left, whole or in part, and that proves damaged,
    is thrown away and fetched anew; nothing damaged stays.
    """
    source = f"{address.rstrip('/')}/{archive.name}"
    part = archive.with_name(f"{archive.name}.part")
    left_before = archive.exists() or part.exists()
    while True:
        download(source, archive, sha256=sha256, md5=md5, setting="data.download.address")
        try:
            unpack(archive, inside, splits, root)
        except DamagedError as error:
            archive.unlink(missing_ok=True)
            if not left_before:
                raise UsageError(f"{error}; it was removed: try again, or another data.download.address") from error
            left_before = False
            continue
        archive.unlink()
        return


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """The folder, made, with no other process that prepares it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(root / ".prepare.lock", f"waiting for another process that prepares {root}"):
            yield
    except OSError as error:
        raise UsageError(f"data.root={root}: {error.strerror or error}") from error


def unpack(archive: Path, inside: str, splits: Sequence[str], root: Path) -> None:
    """Unpack the folders <inside>/<split> of an archive to <root>/<split>, each whole or not at all.

    Raises UsageError for an archive that is damaged, lacks a folder, or contains a path outside of itself, a link or a
    device: nothing of it stays.
    """
    temporary = root / f".{splits[0]}.partial"
    shutil.rmtree(temporary, ignore_errors=True)  # left by an attempt that was killed
    try:
        with bar(f"unpacking {archive.name}", archive.stat().st_size, as_bytes=True) as advance:
            _extract(archive, temporary, advance)
        for split in splits:
            if not (temporary / inside / split).is_dir():
                raise DamagedError(f"{archive}: no folder {inside}/{split} in it")
        for split in splits:
            (temporary / inside / split).rename(root / split)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the disk; a damaged gzip file has no errno
        raise DamagedError(f"{archive}: damaged: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(archive: Path, folder: Path, advance: Callable[[float], None]) -> None:
    # tarfile's own gzip reader ignores the checksum; the gzip module checks it, at the very end
    with archive.open("rb") as file, gzip.open(file) as plain, tarfile.open(fileobj=plain, mode="r|") as members:
        position = 0
        for member in members:
            _check(member, archive)
            if member.size > (room := shutil.disk_usage(folder.parent).free - RESERVE):
                raise OSError(errno.ENOSPC, f"{member.size:,} bytes are needed, and {max(0, room):,} are free", folder)
            members.extract(member, folder, filter="data")  # a second guard: it stays within the folder by itself
            advance(file.tell() - position)
            position = file.tell()
        while plain.read(BLOCK):
            pass


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    """Raise UsageError for a member that would leave the target folder, a link and a device."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise UsageError(f"{archive}: refused, {member.name!r} leads out of the target folder")
    if member.issparse() or not (member.isfile() or member.isdir()):
        raise UsageError(f"{archive}: refused, {member.name!r} is a link, a device or sparse")
