"""Splits of a corpus from <split>.tar.gz archives: downloaded, verified, unpacked, and complete when they appear."""

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from asr_ablations.data.download import BLOCK, download
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.machine import one_at_a_time
from asr_ablations.tools.progress_bar import bar


def fetch(splits: Sequence[str], root: Path, *, address: str, sha256: Mapping[str, str]) -> None:
    """Create <root>/<split> for each split. Its archive lies beside it until it is unpacked.

    Raises UsageError for a split without an archive, a download that fails, and an archive that would write outside
    its folder.
    """
    for split in splits:
        if split not in sha256:
            raise choices("split", split, f"a folder in {root}, or one that can be downloaded: {', '.join(sha256)}")
    if not splits:
        return
    try:
        root.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(root / ".prepare.lock", f"waiting for another process that prepares {root}"):
            for split in splits:
                if not (root / split).exists():
                    archive = root / f"{split}.tar.gz"
                    source = f"{address.rstrip('/')}/{archive.name}"
                    download(source, archive, sha256=sha256[split], setting="data.download.address")
                    unpack(archive, split, root)
                    archive.unlink()
    except OSError as error:
        raise UsageError(f"data.root={root}: {error.strerror or error}") from error


def unpack(archive: Path, split: str, root: Path) -> None:
    """Unpack the folder LibriSpeech/<split> of an archive to <root>/<split>, all of it or nothing.

    Raises UsageError for an archive that is damaged, lacks the folder, or contains a path outside of itself, a link or
    a device: nothing of it stays.
    """
    temporary = root / f".{split}.partial"
    shutil.rmtree(temporary, ignore_errors=True)  # left by an attempt that was killed
    try:
        with bar(f"unpacking {split}", archive.stat().st_size, as_bytes=True) as advance:
            _extract(archive, temporary, advance)
        folder = temporary / "LibriSpeech" / split
        if not folder.is_dir():
            raise UsageError(f"{archive}: no folder LibriSpeech/{split} in it")
        folder.rename(root / split)
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
