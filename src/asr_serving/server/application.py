"""Serve the transcription web page, and answer the page's uploads with transcripts."""

import asyncio
import logging
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from omegaconf import DictConfig
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect

from asr_ablations import SAMPLE_RATE
from asr_ablations.data.audio import duration
from asr_ablations.tools.machine import give_memory_back
from asr_serving.recogniser import Recogniser
from asr_serving.transcribe import Transcript, as_srt, doubt, load_recogniser, read_whole
from asr_verdicts.errors import UsageError

PAGE = {"": ("page.html", "text/html"), "page.css": ("page.css", "text/css"), "page.js": ("page.js", "text/javascript")}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "media-src blob:; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
UPLOAD_SECONDS = 120.0  # time limit for an upload to arrive
UNREADABLE = "the recording cannot be read; expected audio such as WAV, FLAC, OGG or MP3"
BODY = "application/octet-stream"
"""Content type required of uploads. Browsers let other sites' pages send the types of HTML forms, but not this type."""


def application(recognise: Recogniser, *, megabytes: float, minutes: float, uploads: str | None = None) -> FastAPI:
    """Build the web application. megabytes, minutes: maximum size and duration of a recording. uploads: their folder.

    Only the hosts localhost and 127.0.0.1 are accepted, because another site's name may resolve to 127.0.0.1.
    """
    app = FastAPI(title="asr-ablations", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app.state.is_ending = False
    recogniser_lock = asyncio.Lock()
    waiting: set[Request] = set()

    @app.middleware("http")
    async def headers(request: Request, respond: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await respond(request)
        response.headers.update(HEADERS)
        return response

    @app.get("/{name:path}")
    async def page(name: str) -> Response:
        if name not in PAGE:
            raise HTTPException(404, "there is no such page")
        file, kind = PAGE[name]
        text = files(__package__).joinpath(file).read_text(encoding="utf-8")
        text = text.replace("@@megabytes@@", f"{megabytes:g}").replace("@@minutes@@", f"{minutes:g}")
        return Response(text, media_type=kind)

    @app.post("/transcribe")
    async def transcribe(request: Request) -> dict[str, object]:
        if request.headers.get("content-type") != BODY:
            raise HTTPException(415, f"expected the content type {BODY}")
        if len(waiting) >= MOST:
            raise HTTPException(503, f"{MOST} recordings are waiting; try again later", {"Retry-After": "10"})
        waiting.add(request)
        try:
            return await answer(request)
        finally:
            waiting.remove(request)

    async def answer(request: Request) -> dict[str, object]:
        with tempfile.TemporaryDirectory(dir=uploads) as folder:
            path = Path(folder) / "recording"
            try:
                await asyncio.wait_for(_save(request, path, round(megabytes * 1e6)), UPLOAD_SECONDS)
            except asyncio.TimeoutError as error:
                raise HTTPException(408, f"the recording did not arrive within {UPLOAD_SECONDS:g} s") from error
            except ClientDisconnect as error:  # the client has gone and never sees this response
                raise HTTPException(400, "the recording did not arrive") from error
            async with recogniser_lock:
                if app.state.is_ending:
                    raise HTTPException(503, "the server is ending")
                if await request.is_disconnected():
                    raise HTTPException(400, "the client has gone")
                try:
                    return await run_in_threadpool(_transcribe, recognise, path, minutes)
                except UsageError as error:
                    message = " ".join(str(error).split()).replace(str(path), "recording")
                    raise HTTPException(422, UNREADABLE if "unreadable audio" in message else message) from error

    return app


async def _save(request: Request, path: Path, limit: int) -> None:
    """Write a request's body to a file. Raise HTTPException if the body is empty or larger than `limit` bytes."""
    too_large = HTTPException(413, f"the recording is over {limit / 1e6:g} MB")
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise too_large
    size = 0
    with path.open("wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise too_large
            file.write(chunk)
    if not size:
        raise HTTPException(422, "the recording is empty")


def _transcribe(recognise: Recogniser, path: Path, minutes: float) -> dict[str, object]:
    if (seconds := duration(path)) > 60 * minutes:
        raise UsageError(f"the recording lasts {seconds / 60:.1f} minutes, expected at most {minutes:g}")
    samples = read_whole(path)
    (pieces,) = recognise([samples])
    transcript = Transcript("recording", len(samples) / SAMPLE_RATE, pieces)
    return {**transcript.content(), "srt": as_srt(transcript), "doubt": doubt(transcript.words)}


HOST = "127.0.0.1"  # loopback only: the page has no login, and other machines must not reach it
MOST = 64  # maximum number of recordings that are uploading or waiting at once; further uploads get status 503
END_SECONDS = 10  # time for open requests to finish when the server shuts down
CONNECTIONS = 1024  # maximum number of simultaneous connections


def serve(cfg: DictConfig) -> None:
    """Serve the transcription page until the process is interrupted. Raise UsageError if the port cannot be used."""
    give_memory_back()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, cfg.port))
            listener.listen()  # listen before the address is printed, because a client may connect at once
        except OSError as error:
            raise UsageError(f"port={cfg.port}: {error.strerror}; expected a free port, or 0 for any") from error
        recognise = load_recogniser(cfg)
        signal.signal(signal.SIGTERM, _exit)  # uvicorn raises the signal anew, which would leave the uploads
        with tempfile.TemporaryDirectory() as uploads:
            app = application(recognise, megabytes=cfg.limits.megabytes, minutes=cfg.limits.minutes, uploads=uploads)
            print(f"http://{HOST}:{listener.getsockname()[1]}   (Ctrl-C ends the server)", file=sys.stderr, flush=True)
            Server(configuration(app)).run(sockets=[listener])


def _exit(number: int, frame: object) -> None:
    sys.exit(128 + number)


class Server(uvicorn.Server):
    """A server that says what it waits for when it ends, and transcribes only the recording at hand."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit and self.server_state.tasks:
            print(
                f"ends within {END_SECONDS} s: recordings are arriving or being transcribed",
                file=sys.stderr,
                flush=True,
            )
        self.config.app.state.is_ending = True  # type: ignore[union-attr]
        super().handle_exit(sig, frame)


def configuration(app: FastAPI, end_seconds: int = END_SECONDS) -> uvicorn.Config:
    """Return uvicorn's settings. end_seconds: time for open requests to finish when the server shuts down."""
    logging.getLogger("uvicorn.error").addFilter(lambda record: "CancelledError" not in str(record.exc_info))
    return uvicorn.Config(
        app,
        ws="none",
        log_level="warning",
        access_log=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=end_seconds,
        backlog=CONNECTIONS,
    )
