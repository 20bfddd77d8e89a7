"""The server: its answers, and its page with a microphone."""

import asyncio
import io
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
import uvicorn

from asr_serving.server import application as server_module
from asr_serving.server.application import application
from tests.helpers.browser import chromium
from tests.helpers.interpreter import start
from tests.helpers.processes import wait_for


def said(corpus: Path, number: int) -> tuple[Path, str]:
    """An utterance of the tiny corpus's training set, and its text."""
    folder = corpus / "train" / "10" / "1"
    line = (folder / "10-1.trans.txt").read_text(encoding="utf-8").splitlines()[number]
    return folder / f"{line.split()[0]}.flac", line.partition(" ")[2].lower()


@pytest.fixture(scope="module")
def address(memorised_run: Path) -> Iterator[str]:
    """The address of the running page; afterwards one Ctrl-C must end it without a traceback."""
    words = ["src/transcribe.py", f"run={memorised_run}", "serve=true", "port=0", "gpus=0", "limits.megabytes=2"]
    with start([*words, "limits.minutes=0.1"], os.environ) as command:
        line = next(command.lines("errors"), "")
        found = re.match(r"(http://127\.0\.0\.1:\d+) ", line)
        assert found, line + command.finish().stderr
        yield found[1]
        command.send_signal(signal.SIGINT)
        assert "Traceback" not in command.finish().stderr


def post(address: str, content: Any, **headers: str) -> httpx.Response:
    return httpx.post(
        f"{address}/transcribe",
        content=content,
        headers={"Content-Type": "application/octet-stream", **headers},
        timeout=None,
    )


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
        (wav(0.5)[:30], 422, "the recording cannot be read"),
        (wav(6.5), 422, "expected at most 0.1"),
        (bytes(2_000_001), 413, "the recording is over 2 MB"),
    ],
)
def test_bad_recordings_are_reported_in_one_line(address: str, content: bytes, status: int, message: str) -> None:
    response = post(address, content)
    assert response.status_code == status
    assert message in response.json()["detail"]
    assert "\n" not in response.json()["detail"]
    assert "/tmp" not in response.json()["detail"]
    assert post(address, wav(0.5)).status_code == 200, "the server continues"


def test_a_stream_without_a_length_is_limited_too(address: str) -> None:
    response = post(address, (bytes(400_000) for _ in range(10)))
    assert response.status_code == 413


def test_other_sites_are_refused(address: str) -> None:
    """A form of another site may not send this type; a site whose name resolves to it has another host."""
    assert post(address, wav(0.5), **{"Content-Type": "text/plain"}).status_code == 415
    assert post(address, wav(0.5), Host="example.org").status_code == 400
    assert httpx.get(address, headers={"Host": "example.org"}).status_code == 400
    with pytest.raises(httpx.ConnectError):  # bound to 127.0.0.1 alone
        httpx.get(address.replace("127.0.0.1", "127.0.0.2"))
    assert "access-control-allow-origin" not in httpx.options(f"{address}/transcribe").headers


def test_a_client_that_leaves_ends_nothing_and_an_upload_that_never_ends_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The status with which the application itself answers."""
    monkeypatch.setattr("asr_serving.server.application.UPLOAD_SECONDS", 0.2)
    headers = [(b"host", b"localhost"), (b"content-type", b"application/octet-stream")]
    scope = {"type": "http", "method": "POST", "path": "/transcribe", "headers": headers, "query_string": b""}
    begun = {"type": "http.request", "body": b"RIFF", "more_body": True}

    async def endless() -> Any:
        await asyncio.sleep(0.05)
        return begun

    messages = iter([begun])

    async def leaves() -> Any:
        return next(messages, {"type": "http.disconnect"})

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    for receive, status in ((leaves, 400), (endless, 408)):
        sent.clear()
        app = application(lambda recordings: iter([]), megabytes=1, minutes=1)  # type: ignore[arg-type]
        asyncio.run(app(scope, receive, send))
        assert sent[0]["status"] == status


@contextmanager
def quick(recognise: Any) -> Iterator[int]:
    """Yield the port of a server, which must end within a second or two of its signal."""
    app = application(recognise, megabytes=1, minutes=1)
    server = uvicorn.Server(server_module.configuration(app, end_seconds=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)
        assert not thread.is_alive()


def test_of_many_uploads_as_many_as_may_wait_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST", 4)
    monkeypatch.setattr(server_module, "_transcribe", lambda *_: time.sleep(0.2) or {"text": "ok"})
    with quick(None) as port, ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: post(f"http://127.0.0.1:{port}", b"RIFF"), range(20)))
        later = [response for response in answers if response.status_code == 503]
        assert {response.status_code for response in answers} == {200, 503}
        assert len(answers) - len(later) >= 4
        assert {response.headers["Retry-After"] for response in later} == {"10"}
        assert post(f"http://127.0.0.1:{port}", b"RIFF").status_code == 200


def test_a_stuck_upload_neither_keeps_the_server_nor_leaves_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with (
        quick(lambda recordings: iter([])) as port,
        socket.create_connection(("127.0.0.1", port)) as stuck,
    ):
        head = "POST /transcribe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
        stuck.sendall(f"{head}Content-Length: 1000\r\n\r\nxx".encode())
        wait_for(lambda: list(tmp_path.rglob("recording")))
    assert list(tmp_path.rglob("recording")) == []


@pytest.fixture(scope="module")
def browser(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Its microphone is allowed, and repeats three seconds of an utterance and silence."""
    samples, rate = soundfile.read(said(tiny_corpus, 0)[0])
    file = tmp_path_factory.mktemp("microphone") / "sound.wav"
    soundfile.write(file, np.concatenate([samples, np.zeros(3 * rate - len(samples))]), rate, subtype="PCM_16")
    fake = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with chromium(
        *fake, "--autoplay-policy=no-user-gesture-required", f"--use-file-for-fake-audio-capture={file}"
    ) as it:
        yield it


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    opened = browser.new_page()
    requested: list[str] = []
    errors: list[str] = []
    opened.on("request", lambda request: requested.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda m: errors.append(m.text) if m.type == "error" and "422" not in m.text else None)
    opened.add_init_script(
        "const send = window.fetch; window.fetch = (to, what) => { window.sent = what.body; return send(to, what); };"
    )
    opened.goto(address)
    yield opened
    opened.close()
    assert errors == []
    assert all(url.startswith((address, "blob:", "data:")) for url in requested)


def test_a_file_becomes_words_that_play_and_what_is_no_audio_is_reported(
    page: Any, tiny_corpus: Path, tmp_path: Path
) -> None:
    file, text = said(tiny_corpus, 1)
    page.set_input_files("#file", file)
    page.wait_for_selector("#text button")
    assert page.inner_text("#text").strip() == text
    assert "confidence" in page.get_attribute("#text button", "title")
    page.click("#text button:nth-of-type(2)")
    assert page.evaluate("document.getElementById('player').src").startswith("blob:")
    with page.expect_download() as download:
        page.click("#srt")
    assert "-->" in Path(download.value.path()).read_text()
    (tmp_path / "notes.wav").write_text("not a sound")
    page.set_input_files("#file", tmp_path / "notes.wav")
    page.wait_for_selector("#error:not(:empty)")
    assert page.inner_text("#error").startswith("the recording cannot be read; expected audio such as WAV")
    assert page.is_hidden("#result")
    assert page.is_enabled("#record")


def test_the_microphone_is_recorded_and_transcribed(page: Any, address: str) -> None:
    """The sound goes through the browser's echo cancellation and a resampling: that it arrives as sound is all that is
    certain of it.
    """
    with page.expect_request(f"{address}/transcribe") as sent:
        page.click("#record")
        page.wait_for_selector("#status:text-is('Recording')")
        assert page.get_attribute("#record", "aria-pressed") == "true"
        page.wait_for_selector("#clock:text-matches('0:0[3-9]')")
        page.click("#record")
    page.wait_for_selector("#status:text-matches('of audio|no word')")
    response = sent.value.response()
    assert response.status == 200
    assert response.json()["seconds"] == pytest.approx(3.3, abs=0.7)
    loudest = page.evaluate(
        """async () => Math.max(...new Int16Array((await window.sent.arrayBuffer()).slice(44, 100044)))"""
    )
    assert loudest > 600
    rate = page.evaluate("async () => new Uint32Array((await window.sent.arrayBuffer()).slice(24, 28))[0]")
    assert rate == 16000
