"""serve(cfg): the page, on the loopback interface of this machine only."""

import socket
import sys

import uvicorn
from omegaconf import DictConfig

from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import give_memory_back
from asr_ablations.transcription.job import recogniser
from asr_ablations.transcription.server.application import application

HOST = "127.0.0.1"
"""The loopback address: there is no login, so no other machine may reach the page."""

MOST = 64
"""Requests at a time; others are answered with 503."""


def serve(cfg: DictConfig) -> None:
    """Serve the page until interrupted. Raises UsageError if the port is in use."""
    give_memory_back()
    with _listen(cfg.port) as listener:
        app = application(recogniser(cfg), megabytes=cfg.limits.megabytes, minutes=cfg.limits.minutes)
        print(f"http://{HOST}:{listener.getsockname()[1]}   (Ctrl-C ends it)", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False, limit_concurrency=MOST)
        uvicorn.Server(config).run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # from now on, so that nobody who read the address is refused
    except OSError as error:
        listener.close()
        raise UsageError(f"port={port}: {error.strerror}; expected one that is free, or 0 for any") from error
    return listener
