"""A server on loopback that accepts connections and gives no answer, or none to some requests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer


class Handler(StreamRequestHandler):
    server: "DeadServer"

    def handle(self) -> None:
        method = self.rfile.readline().partition(b" ")[0].decode()
        self.server.requests.append(method)
        if method in self.server.answered:
            self.wfile.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            self.server.hangs_up.wait()


class DeadServer(ThreadingTCPServer):
    """answered: methods that get an answer; requests: those received; hangs_up: closes connections when set."""

    daemon_threads = True

    def __init__(self, *answered: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answered, self.requests, self.hangs_up = answered, list[str](), threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def dead_server(*answered: str) -> Iterator[DeadServer]:
    with DeadServer(*answered) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield server
        finally:
            server.hangs_up.set()
            server.shutdown()
