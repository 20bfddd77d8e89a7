"""The page in Chromium: a file and a microphone, from the sound to the words."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.helpers.page_server import said, serving

OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--use-fake-device-for-media-stream", "--autoplay-policy=no-user-gesture-required",
]  # fmt: skip
KEEP_SENT = (
    "const send = window.fetch; window.fetch = (to, what) => { window.sent = what.body; return send(to, what); };"
)
MICROPHONE = ["--use-fake-ui-for-media-stream"]


@pytest.fixture(scope="module")
def address(memorised_run: Path) -> Iterator[str]:
    with serving(memorised_run, "limits.megabytes=2") as url:
        yield url


@pytest.fixture(scope="module")
def spoken(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sound that the microphone repeats: three seconds of an utterance and silence."""
    samples, rate = soundfile.read(said(tiny_corpus, 0)[0])
    sound = np.concatenate([samples, np.zeros(3 * rate - len(samples))])
    file = tmp_path_factory.mktemp("microphone") / "sound.wav"
    soundfile.write(file, sound, rate, subtype="PCM_16")
    return file


@pytest.fixture(scope="module")
def browsers(spoken: Path) -> Iterator[SimpleNamespace]:
    """A browser that allows the microphone, and one that does not."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        options = [*OPTIONS, f"--use-file-for-fake-audio-capture={spoken}"]
        with_, without = (
            started.chromium.launch(executable_path=chromium, args=[*options, *more]) for more in (MICROPHONE, [])
        )
        yield SimpleNamespace(with_=with_, without=without)
        with_.close()
        without.close()


@pytest.fixture
def page(browsers: SimpleNamespace, address: str) -> Iterator[Any]:
    opened = browsers.with_.new_page()
    requested: list[str] = []
    errors: list[str] = []
    opened.on("request", lambda request: requested.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda m: errors.append(m.text) if m.type == "error" and "422" not in m.text else None)
    opened.add_init_script(KEEP_SENT)
    opened.goto(address)
    yield opened
    opened.close()
    assert errors == []
    assert all(url.startswith((address, "blob:", "data:")) for url in requested)


def test_a_file_becomes_words_that_play(page: Any, tiny_corpus: Path) -> None:
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


def test_what_is_no_audio_is_reported(page: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.wav").write_text("not a sound")
    page.set_input_files("#file", tmp_path / "notes.wav")
    page.wait_for_selector("#error:not(:empty)")
    assert "unreadable audio" in page.inner_text("#error")
    assert page.is_hidden("#result")
    assert page.is_enabled("#record")


def test_what_is_too_large_is_not_sent(page: Any, tmp_path: Path) -> None:
    (tmp_path / "large.wav").write_bytes(bytes(2_000_001))
    page.set_input_files("#file", tmp_path / "large.wav")
    page.wait_for_selector("#error:not(:empty)")
    assert page.inner_text("#error") == "the recording is over 2 MB"


def test_a_refused_microphone_is_reported(browsers: SimpleNamespace, address: str) -> None:
    page = browsers.without.new_page()
    page.goto(address)
    page.click("#record")
    page.wait_for_selector("#error:not(:empty)")
    assert page.inner_text("#error") == "the microphone is not allowed for this page"
    page.close()


def test_dark_light_small_and_by_keyboard(browsers: SimpleNamespace, address: str) -> None:
    colours = set()
    for scheme in ("dark", "light"):
        page = browsers.with_.new_page(viewport={"width": 320, "height": 700}, color_scheme=scheme)
        page.goto(address)
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        reached = []
        for _ in range(2):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert reached == ["record", "file"]
        page.close()
    assert len(colours) == 2
