"""The page's server: limits, bad input, and who may ask."""

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from asr_ablations.transcription.server.application import application
from tests.helpers.page_server import said, serving

KIND = {"Content-Type": "application/octet-stream"}


@pytest.fixture(scope="module")
def address(memorised_run: Path) -> Iterator[str]:
    with serving(memorised_run, "limits.megabytes=0.1", "limits.minutes=0.04") as url:
        yield url


def post(address: str, content: Any, **headers: str) -> httpx.Response:
    return httpx.post(f"{address}/transcribe", content=content, headers={**KIND, **headers}, timeout=None)


def wav(seconds: float, rate: int = 16000) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(round(seconds * rate)), rate, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


def test_a_recording_comes_back_as_words(address: str, tiny_corpus: Path) -> None:
    file, text = said(tiny_corpus, 0)
    response = post(address, file.read_bytes())
    assert response.status_code == 200, response.text
    assert response.json()["text"] == text
    assert response.json()["srt"].startswith("1\n00:00:0")


def test_the_page_requests_nothing_from_other_sites(address: str) -> None:
    for path in ("/", "/page.js", "/page.css"):
        response = httpx.get(address + path)
        assert response.status_code == 200
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "http://" not in response.text
        assert "https://" not in response.text
    assert httpx.get(f"{address}/docs").status_code == 404


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"", 422, "the recording is empty"),
        (b"no audio" * 99, 422, "cannot read audio recording: unreadable audio"),
        (wav(0.5)[:30], 422, "cannot read audio recording"),
        (wav(0), 422, "0 samples"),
        (wav(2.6), 422, "expected 0.04 at the most"),
        (bytes(100_001), 413, "the recording is over 0.1 MB"),
    ],
)
def test_bad_recordings_are_reported_in_one_line(address: str, content: bytes, status: int, message: str) -> None:
    response = post(address, content)
    assert response.status_code == status
    assert message in response.json()["detail"]
    assert "\n" not in response.json()["detail"]
    assert "/tmp" not in response.json()["detail"]


def test_a_stream_without_a_length_is_limited_too(address: str) -> None:
    response = post(address, (bytes(20_000) for _ in range(10)))
    assert response.status_code == 413


def test_other_sites_are_refused(address: str) -> None:
    """A form of another site may not send this type; a site whose name resolves to it has another host."""
    assert post(address, wav(0.5), **{"Content-Type": "text/plain"}).status_code == 415
    assert post(address, wav(0.5), Host="example.org").status_code == 400
    assert httpx.get(address, headers={"Host": "example.org"}).status_code == 400
    assert "access-control-allow-origin" not in httpx.options(f"{address}/transcribe").headers


def test_only_this_machine_reaches_it(address: str) -> None:
    """Bound to 127.0.0.1 alone: another address of the loopback network gets no connection."""
    with pytest.raises(httpx.ConnectError):
        httpx.get(address.replace("127.0.0.1", "127.0.0.2"))


def test_the_server_continues_after_bad_recordings(address: str) -> None:
    assert post(address, b"x").status_code == 422
    assert post(address, wav(0.5)).status_code == 200


def answer(receive: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """The status with which the application itself answers an upload whose messages `receive` gives."""
    monkeypatch.setattr("asr_ablations.transcription.server.application.UPLOAD_SECONDS", 0.2)
    app = application(lambda recordings: iter([]), megabytes=1, minutes=1)  # type: ignore[arg-type]
    headers = [(b"host", b"localhost"), (b"content-type", b"application/octet-stream")]
    scope = {"type": "http", "method": "POST", "path": "/transcribe", "headers": headers, "query_string": b""}
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


def test_a_client_that_leaves_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = iter([{"type": "http.request", "body": b"RIFF", "more_body": True}])

    async def receive() -> Any:
        return next(messages, {"type": "http.disconnect"})

    assert answer(receive, monkeypatch) == 400


def test_an_upload_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def receive() -> Any:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": True}

    assert answer(receive, monkeypatch) == 408
