"""A web server on the loopback that resumes and breaks connections as real ones do, and LibriSpeech archives for it."""

import hashlib
import io
import re
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Server(ThreadingHTTPServer):
    """files: contents by name. breaks: for each coming request, bytes after which the connection is cut. requests:
    (path, Range) of those received. resumes: whether Range is honoured.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.breaks: list[int] = []
        self.requests: list[tuple[str, str | None]] = []
        self.resumes = True
        self.address = f"http://127.0.0.1:{self.server_port}/resources/12"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        requested = self.headers.get("Range")
        self.server.requests.append((self.path, requested))
        content = self.server.files.get(self.path.rpartition("/")[2])
        if content is None:
            return self.send_error(404)
        start = int(re.fullmatch(r"bytes=(\d+)-", requested)[1]) if requested and self.server.resumes else 0  # type: ignore[index]
        beyond, size = start >= len(content) > 0, len(content)
        self.send_response(416 if beyond else 206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {'*' if beyond else f'{start}-{size - 1}'}/{size}")
        self.send_header("Content-Length", str(max(size - start, 0)))
        self.end_headers()
        cut = self.server.breaks.pop(0) if self.server.breaks and not beyond else size
        self.wfile.write(content[start : start + cut])
        self.close_connection = True

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def archive(folder: Path, split: str, *more: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """<split>.tar.gz of a split's folder, as LibriSpeech's archives are made; `more` members at the end."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        readme = tarfile.TarInfo("LibriSpeech/README.TXT")
        readme.size = 4
        tar.addfile(readme, io.BytesIO(b"read"))
        tar.add(folder, f"LibriSpeech/{split}")
        for member, content in more:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return written.getvalue()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
