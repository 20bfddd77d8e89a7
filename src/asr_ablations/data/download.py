"""Files from the network: resumed where they broke off, verified before they get their name."""

import errno
import hashlib
import http.client
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.progress_bar import bar

BLOCK = 1 << 18
TRIES = 4
"""Attempts in a row that bring nothing, before it is given up."""
PAUSE = 1.0
"""s before the second attempt; twice as long before each further one."""
PATIENCE = 60.0
"""s without a byte after which a connection counts as broken."""


def download(address: str, target: Path, sha256: str) -> None:
    """Fetch `address` to `target` unless it is there; what an earlier attempt left in <target>.part is gone on with.
    torch.hub.download_url_to_file, which torchaudio's datasets use, throws away what a broken download has brought.

    Raises UsageError where the server does not give it, or gives what has another SHA-256, which is then removed.
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
        except (OSError, http.client.HTTPException) as error:
            failures = 0 if _size(part) > before else failures + 1
            if failures >= TRIES or _is_final(error):
                kept = f"; what came is kept in {part}, and the same command goes on there" if _size(part) else ""
                raise UsageError(f"cannot download {address}: {error}{kept}") from error
            time.sleep(PAUSE * 2**failures / 2)
    _verify(part, address, sha256)
    os.replace(part, target)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_final(error: Exception) -> bool:
    """Whether another attempt would end the same way."""
    if isinstance(error, HTTPError):
        return 400 <= error.code < 500 and error.code not in (408, 429)
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EACCES, errno.EDQUOT, errno.EROFS)


def _fetch_rest(address: str, part: Path) -> None:
    """Append what is missing. Raises OSError where the connection ends before the file does."""
    there = _size(part)
    request = Request(address, headers={"Range": f"bytes={there}-"} if there else {})
    try:
        with urlopen(request, timeout=PATIENCE) as answer:
            goes_on = answer.status == 206
            total = (there if goes_on else 0) + int(answer.headers.get("Content-Length") or 0)
            _append(answer, part, there if goes_on else 0, total)
    except HTTPError as error:
        # 416: nothing is left to send. If more is there than the server has, it is of another file.
        whole = re.search(r"/(\d+)$", error.headers.get("Content-Range") or "")
        if error.code != 416 or whole is None:
            raise
        if int(whole[1]) != there:
            part.unlink()
            _fetch_rest(address, part)
        return
    if total and _size(part) < total:
        raise ConnectionError(f"broke off after {_size(part)} of {total} bytes")


def _append(answer: Any, part: Path, there: int, total: int) -> None:
    """A server that cannot resume sends everything, which then replaces what was there."""
    with part.open("ab" if there else "wb") as file, bar(part.stem, total, as_bytes=True) as advance:
        advance(there)
        while block := answer.read(BLOCK):
            file.write(block)
            advance(len(block))


def _verify(part: Path, address: str, sha256: str) -> None:
    found = hashlib.sha256()
    with part.open("rb") as file, bar(f"verifying {part.stem}", _size(part), as_bytes=True) as advance:
        while block := file.read(BLOCK):
            found.update(block)
            advance(len(block))
    if found.hexdigest() != sha256:
        part.unlink()
        raise UsageError(
            f"{address}: SHA-256 {found.hexdigest()}, expected {sha256}; the file was removed: try again, or another "
            "data.download.address"
        )
