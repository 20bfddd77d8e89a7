"""serve(cfg): the page, on this machine's loopback interface alone."""

import socket
import sys

import uvicorn
from omegaconf import DictConfig

from asr_ablations.tools.errors import UsageError
from asr_ablations.transcription.job import recogniser
from asr_ablations.transcription.server.application import application

HOST = "127.0.0.1"
"""Nobody else on the network reaches it: there is no login."""


def serve(cfg: DictConfig) -> None:
    """Until interrupted. Raises UsageError for a port that is taken."""
    with _listen(cfg.port) as listening:
        app = application(recogniser(cfg), megabytes=cfg.limits.megabytes, minutes=cfg.limits.minutes)
        print(f"http://{HOST}:{listening.getsockname()[1]}   (Ctrl-C ends it)", file=sys.stderr, flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])


def _listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
    except OSError as error:
        listening.close()
        raise UsageError(f"port={port}: {error.strerror}; expected one that is free, or 0 for any") from error
    return listening
