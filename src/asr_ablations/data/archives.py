"""Splits of a corpus from .tar.gz archives: downloaded, verified, unpacked, and complete when they appear."""

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from asr_ablations.data.download import BLOCK, download
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.machine import one_at_a_time
from asr_ablations.tools.progress_bar import bar


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
                archive = root / f"{split}.tar.gz"
                source = f"{address.rstrip('/')}/{archive.name}"
                download(source, archive, sha256=sha256[split], setting="data.download.address")
                unpack(archive, "LibriSpeech", [split], root)
                archive.unlink()


def fetch_together(splits: Sequence[str], root: Path, *, address: str, name: str, md5: str | None) -> None:
    """Create <root>/<split> for each split, from the one archive <name>.tar.gz, which holds all of them in a folder of
    its name. It lies beside them until it is unpacked. md5: of the archive; None where it is not known.

    Raises UsageError as fetch.
    """
    if not splits:
        return
    with _alone(root):
        if missing := [split for split in splits if not (root / split).exists()]:
            archive = root / f"{name}.tar.gz"
            source = f"{address.rstrip('/')}/{archive.name}"
            download(source, archive, sha256=None, md5=md5, setting="data.download.address")
            unpack(archive, name, missing, root)
            archive.unlink()


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
                raise UsageError(f"{archive}: no folder {inside}/{split} in it")
        for split in splits:
            (temporary / inside / split).rename(root / split)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the disk; a damaged gzip file has no errno
        raise UsageError(f"{archive}: damaged: {error}; remove it and try again") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(archive: Path, folder: Path, advance: Callable[[float], None]) -> None:
    # tarfile's own gzip reader ignores the checksum; the gzip module checks it, at the very end
    with archive.open("rb") as file, gzip.open(file) as plain, tarfile.open(fileobj=plain, mode="r|") as members:
        position = 0
        for member in members:
            _check(member, archive)
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
    if not (member.isfile() or member.isdir()):
        raise UsageError(f"{archive}: refused, {member.name!r} is a link or a device")
