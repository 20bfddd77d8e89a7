"""The page: its content, and in a browser."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import soundfile

from asr_ablations.report.figures import write_figures
from asr_ablations.report.inspection import recording, worst
from asr_ablations.report.page import embedded, render, write_page
from asr_ablations.report.training_report import report_comparison
from asr_verdicts import plotting
from asr_verdicts.comparison import Comparison
from asr_verdicts.record import Record, SetResult
from tests.helpers import invented_records
from tests.helpers.browser import chromium
from tests.helpers.comparison import comparison, scaled
from tests.helpers.planned import planned

MARKUP = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>\u2028"


def drawn(compared: Comparison, folder: Path, figures: Sequence[str] = ()) -> Path:
    """The file of a comparison's page, with these figures in it."""
    with mock.patch.object(plotting, "FORMATS", {"svg": plotting.FORMATS["svg"]}):  # the page takes no other
        written = write_figures(compared, folder, figures) if figures else []
    return write_page(report_comparison(compared), folder, written)[0]


@pytest.fixture(scope="module")
def handmade(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return comparison(tmp_path_factory.mktemp("runs"))


def of_corpus(root: Path | None) -> Record:
    """A run whose config names this folder as data.root."""
    run = invented_records.finished("rnn=gru", 0, [])
    return replace(run, config={**run.config, "data": {"root": None if root is None else str(root)}})


def test_one_file_below_three_megabytes_refers_to_nothing_outside(handmade: Comparison, tmp_path: Path) -> None:
    path = drawn(handmade, tmp_path)
    assert path == tmp_path / "index.html"
    assert list(tmp_path.iterdir()) == [path]
    assert 1.5e6 < path.stat().st_size < 3e6
    text = re.sub(r'(?s)<script type="text/plain" id="plotly">.*?</script>', "", render(report_comparison(handmade)))
    assert not re.findall(r"""(?:src|href)=["']?(?!data:|#)[^"'\s>]+""", text)
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_text_of_a_run_cannot_leave_the_data(handmade: Comparison) -> None:
    class Elements(HTMLParser):
        """The start tags of a page, and the text in #data."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.tags: list[str] = []
            self.data, self._inside = "", False
            self.feed(text)

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            self.tags.append(tag)
            self._inside = ("id", "data") in attributes

        def handle_data(self, data: str) -> None:
            self.data += data if self._inside else ""
            self._inside = False

    layout = handmade.design.layout
    asked = replace(layout, declared=replace(layout.declared, question=MARKUP))
    first, *others = (replace(arm, name=MARKUP + arm.name) for arm in handmade.arms)
    odd = replace(first.runs[0].summary, sets={MARKUP: SetResult(wer=float("nan"))})
    hostile = replace(
        handmade,
        title=MARKUP + "@@plotly@@",
        design=replace(handmade.design, layout=asked, sets=[MARKUP]),
        verdicts=[replace(handmade.verdicts[0], sentence=MARKUP)],
        arms=[replace(first, runs=[replace(first.runs[0], summary=odd)]), *others],
    )
    plain, attacked = (Elements(render(report_comparison(each))) for each in (handmade, hostile))
    assert attacked.tags == plain.tags
    data = json.loads(attacked.data)
    assert data["title"] == MARKUP + "@@plotly@@"
    assert data["question"] == MARKUP
    (rates,) = [each for each in data["sections"] if each["heading"].startswith("Error rates of")]
    assert rates["rows"][0][:4] == [first.name, MARKUP, "1", "nan"]


def test_the_worst_are_those_with_the_highest_rates(handmade: Comparison) -> None:
    rates: dict[tuple[str, str], list[float]] = {}
    for row in (row for arm in handmade.arms for run in arm.runs for row in run.utterances):
        errors = row["substitutions"] + row["deletions"] + row["insertions"]
        rates.setdefault((row["set"], row["id"]), []).append(errors / row["words"])
    means = sorted((float(np.mean(values)) for values in rates.values()), reverse=True)
    shown = worst(handmade)
    assert [utterance["rate"] for utterance in shown] == pytest.approx(means[:10])


def test_a_recording_is_the_audio_of_the_utterance_or_left_out(tmp_path: Path) -> None:
    """The part from `offset` on: the first second is silence, the second a tone."""
    samples = np.concatenate([np.zeros(16000), 0.5 * np.sin(np.arange(16000) * 0.2)])
    soundfile.write(tmp_path / "a.flac", samples, 16000)
    row = {"audio": str(tmp_path / "a.flac"), "offset": "1", "duration": "1"}
    address = recording(of_corpus(tmp_path), row, 10**6)["audio"]
    (tmp_path / "a.mp3").write_bytes(base64.b64decode(address.partition(",")[2]))
    played, rate = soundfile.read(tmp_path / "a.mp3")
    assert rate == 16000
    assert len(played) / rate == pytest.approx(1, abs=0.15)
    assert np.sqrt(np.mean(played**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.15)
    (tmp_path / "a.flac").write_text("no audio")
    assert recording(of_corpus(tmp_path), {}, 10**6)["audio"] is None
    for audio in ("/does/not/exist.flac", str(tmp_path / "a.flac"), "", "\0"):
        row = {"audio": audio, "offset": "0" if audio else "", "duration": "1" if audio else ""}
        assert recording(of_corpus(tmp_path), row, 10**6)["audio"] is None


def test_a_record_brings_no_recording_into_the_page_that_is_none_of_its_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its path, by a way out of the corpus, by a link, and by a corpus that is everything this user has."""
    home = tmp_path / "home"
    corpus, private = home / "corpus", home / "private.flac"
    corpus.mkdir(parents=True)
    soundfile.write(private, np.zeros(1600), 16000)
    soundfile.write(corpus / "a.flac", np.zeros(1600), 16000)
    (corpus / "link.flac").symlink_to(private)
    monkeypatch.setenv("HOME", str(home))

    def silent(root: Path | None, path: Path) -> str | None:
        played = recording(of_corpus(root), {"audio": str(path), "offset": "0", "duration": "0.1"}, 10**6)
        assert (played["audio"] is None) == ("silent" in played)
        return played.get("silent")

    assert silent(corpus, corpus / "a.flac") is None
    for path in (private, corpus / ".." / private.name, corpus / "link.flac"):
        assert silent(corpus, path) == "its file is outside of data.root"
    for root in (Path("/"), tmp_path, home, Path("~")):
        assert silent(root, private)
    monkeypatch.chdir(corpus)
    assert silent(None, corpus / "a.flac") is None, "data.root=null is the current folder"
    assert silent(None, private)


def test_recordings_keep_to_their_share_of_the_page(handmade: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    address = worst(handmade)[0]["audio"]
    monkeypatch.setattr("asr_ablations.report.inspection.AUDIO_BYTES", int(2.5 * len(address)))
    assert sum(bool(shown["audio"]) for shown in worst(handmade)) == 2


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return drawn(comparison(folder / "runs"), folder / "report", ["differences"])


def visit(browser: Any, file: Path) -> SimpleNamespace:
    """The page with its curves drawn, with its requests and errors on the way."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_selector("#curves .scatterlayer .trace", state="attached")
    return SimpleNamespace(page=page, requests=requests, errors=errors)


@pytest.fixture
def visited(browser: Any, file: Path) -> Iterator[SimpleNamespace]:
    visited = visit(browser, file)
    yield visited
    visited.page.close()
    assert visited.errors == []
    assert [url for url in visited.requests if not url.startswith(("data:", "blob:"))] == [file.as_uri()]


def curves(page: Any) -> list[dict[str, Any]]:
    """The lines that are drawn, without the edges of the bands."""
    return page.evaluate(
        """document.getElementById('curves').data.filter((line) => line.hoverinfo !== 'skip')
               .map((line) => ({name: line.name, x: [...line.x], y: [...line.y]}))"""
    )


def cells(page: Any, heading: str) -> list[list[str]]:
    rows = page.locator(f"section[aria-label^='{heading}'] tbody tr").all_inner_texts()
    return [row.split("\t") for row in rows]


def test_the_page_shows_the_report_and_plays_audio(visited: SimpleNamespace, handmade: Comparison) -> None:
    """The verdict comes first; tables have the cells that the terminal shows; the Tab key reaches every control."""
    page = visited.page
    text = page.inner_text("body")
    assert (
        text.index("Answer")
        < text.index("No difference is shown between rnn=gru and rnn=lstm on test-clean")
        < text.index("Curves")
        < text.index("Error rates of the last weights")
    )
    for each in report_comparison(handmade).sections:
        if each.rows:
            assert cells(page, each.heading) == each.rows
    assert cells(page, "Scaling") == cells(page, "Looks") == []
    assert page.locator("#worst > li").count() == 10
    played = page.evaluate(
        """(async () => {
               const audio = document.querySelector('#worst audio');
               audio.muted = true;
               await audio.play();
               return audio.duration;
           })()"""
    )
    assert played == pytest.approx(3, abs=0.2)
    reached = set()
    for _ in range(90):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.closest('[id]')?.id"))
    assert reached >= {"answer", "metric", "axis", "seeds", "log", "arms"}


def test_figures_stand_with_their_tables(browser: Any, tmp_path: Path) -> None:
    """The differences stand in the answer."""
    sections = {
        "time_to_accuracy": "Until the median", "seeds": "Error rates of", "utilisation": "Seconds per epoch",
        "looks": "Looks", "scaling": "Scaling",
    }  # fmt: skip
    whole = replace(scaled(comparison(tmp_path / "runs", seeds=2)), course=planned().course)
    shown = visit(browser, drawn(whole, tmp_path, [*sections, "differences"]))
    for heading in sections.values():
        picture = shown.page.locator(f"section[aria-label^='{heading}'] img")
        assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 100
        assert cells(shown.page, heading)
    assert shown.page.locator("#answer img").count() == 1
    assert shown.errors == []
    shown.page.close()


def test_controls_act_by_mouse_and_keyboard(visited: SimpleNamespace) -> None:
    page = visited.page
    table = "section[aria-label^='Error rates of']"
    column, head = f"{table} tbody td:nth-child(4)", f"{table} th:nth-child(4)"
    page.click(f"{head} button")
    rising = [float(text.split()[0]) for text in page.locator(column).all_inner_texts()]
    assert rising == sorted(rising)
    assert page.get_attribute(head, "aria-sort") == "ascending"
    page.focus(f"{head} button")
    page.keyboard.press("Enter")
    assert [float(text.split()[0]) for text in page.locator(column).all_inner_texts()] == rising[::-1]
    before = [line["name"] for line in curves(page)]
    page.focus("#arms label:nth-child(2) input")
    page.keyboard.press("Space")
    assert [line["name"] for line in curves(page)] == [name for name in before if name != "rnn=gru"]
    page.keyboard.press("Space")
    assert [line["name"] for line in curves(page)] == before
    for axis, last in (("epoch", 20), ("step", 800), ("audio", 40), ("time", 95.4)):
        page.select_option("#axis", axis)
        assert curves(page)[0]["x"][-1] == pytest.approx(last, rel=1e-3)
    page.select_option("#metric", "train/loss_epoch")
    page.select_option("#seeds", "each")
    assert len(curves(page)) == 9
    page.check("#log")
    assert page.evaluate("document.getElementById('curves').layout.yaxis.type") == "log"


def test_markup_in_names_is_shown_as_text(browser: Any, tmp_path: Path) -> None:
    plain = comparison(tmp_path / "runs", seeds=1)
    name = "<img src=x onerror=alert(1)><b>"
    arms = [replace(plain.arms[0], name=name), *plain.arms[1:]]
    visited = visit(browser, drawn(replace(plain, arms=arms, title=name), tmp_path))
    assert visited.page.inner_text("h1") == name
    assert visited.page.locator("main img, main b, svg img").count() == 0
    assert visited.errors == []
    visited.page.close()


def test_embedded_json_is_strict_and_safe() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for value in (MARKUP, [float("inf")], {"a": np.float32(1.5)}, "\ud800", {"b": Path("x")}):
        text = embedded(value)
        assert not set("<>&\u2028\u2029") & set(text)
        json.loads(text, parse_constant=refuse)
