"""A stand-in for W&B's server, on loopback: a real HTTP server that speaks the protocol of W&B's own client 0.31, as
read in its source and its requests. It is not W&B: what the real server does with what it receives is not known here.

Two rules are taken from elsewhere. Lines of a stream take the place of those held at their offset, as W&B's own tests
of its client reckon. A run that is begun under an id that exists starts anew unless it is resumed, as the documentation
of wandb.init says.
"""

import gzip
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from tests.helpers.wandb_answers import Answers
from tests.helpers.wandb_store import Store

STREAM = re.compile(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream")
NAME = re.compile(r"\b(?:query|mutation)\s+(\w+)")


class Handler(BaseHTTPRequestHandler):
    server: "Listener"
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        """One request, or none any more where the server went away while the connection was open."""
        if self.server.gone:
            self.close_connection = True
        else:
            super().handle_one_request()

    def do_POST(self) -> None:
        content = self._body()
        if self.path != "/graphql" and not STREAM.fullmatch(self.path):  # the client's telemetry about itself
            self._answer(404, b"")
            return
        body = json.loads(content)
        if stream := STREAM.fullmatch(self.path):
            run = self.server.store.run(*stream.groups())
            if run is None:
                self._answer(404, b"{}")
                return
            with self.server.lock:
                run.receive(body)
            self._answer(200, b"{}")
            return
        name = NAME.search(body["query"])
        assert name is not None
        if name[1] == self.server.last_query:
            self.server.leave()
            self.close_connection = True
            return
        with self.server.lock:
            answer = self.server.answers(name[1], body.get("variables") or {})
        self._answer(200, json.dumps(answer).encode())

    def do_PUT(self) -> None:
        content = self._body()
        kind, _, rest = unquote(self.path).removeprefix("/").partition("/")
        store = self.server.store
        if kind == "store":
            entity, project, run, name = rest.split("/", 3)
            store.runs[entity, project, run].files[name] = content
        elif kind == "manifest":
            store.artifact(rest).manifest = content
        else:
            id_, _, name = rest.partition("/")
            store.artifact(id_).files[name] = content
        self._answer(200, b"")

    def do_GET(self) -> None:
        kind, _, rest = unquote(self.path).removeprefix("/").partition("/")
        if kind not in ("manifest", "artifact"):
            self._answer(404, b"")
            return
        id_, _, name = rest.partition("/")
        artifact = self.server.store.artifact(id_)
        self._answer(200, artifact.manifest if kind == "manifest" else artifact.files[name])

    def _body(self) -> bytes:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(content) if self.headers.get("Content-Encoding") == "gzip" else content

    def _answer(self, code: int, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, store: Store) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.store, self.lock, self.gone = store, threading.RLock(), False
        self.answers = Answers(store, f"http://127.0.0.1:{self.server_port}")
        self.last_query: str | None = None

    def leave(self) -> None:
        """Refuse connections; what comes over those that are open gets no answer."""
        self.gone = True
        self.shutdown()
        self.server_close()


class StandIn:
    """The server on one port, which may go away and come back. store: what it has received in all that time."""

    def __init__(self) -> None:
        self.store = Store()
        self.port = 0
        self.come_back()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs so that it logs here, and nowhere else."""
        return {"WANDB_BASE_URL": self.address, "WANDB_API_KEY": "0" * 40, "WANDB_MODE": "online"}

    def come_back(self) -> None:
        self._listener = Listener(self.port, self.store)
        self.port = self._listener.server_port
        threading.Thread(target=self._listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def go_away(self) -> None:
        self._listener.leave()

    @contextmanager
    def gone_at(self, query: str) -> Iterator[None]:
        """It goes away when a GraphQL request of this name comes, which gets no answer, and is back after the block."""
        self._listener.last_query = query
        try:
            yield
        finally:
            self.go_away()
            self.come_back()


@contextmanager
def wandb_server() -> Iterator[StandIn]:
    server = StandIn()
    try:
        yield server
    finally:
        server.go_away()
