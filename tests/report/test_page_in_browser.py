"""The page in Chromium: it opens, sends no requests, and its controls work."""

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from asr_ablations.report.page import write_page
from tests.helpers.comparison import comparison, scaled
from tests.helpers.planned import planned
from tests.helpers.search import FACTOR, searched

OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return write_page(comparison(folder / "runs"), folder / "report")[0]


def visit(browser: Any, file: Path, width: int = 1280, scheme: str = "light") -> SimpleNamespace:
    """The page with its curves drawn, with its requests and errors on the way."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_selector("#utilisation .scatterlayer .trace", state="attached")
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


def test_the_page_opens_without_an_error_or_a_request(browser: Any, file: Path) -> None:
    visited = visit(browser, file)
    assert visited.errors == []
    assert {url.split(":")[0] for url in visited.requests} <= {"file", "data", "blob"}
    visited.page.close()


def test_the_verdict_comes_first(visited: SimpleNamespace) -> None:
    text = visited.page.inner_text("body")
    assert text.index("gru and lstm on test-clean") < text.index("Results") < text.index("Curves")


def test_time_to_accuracy_has_the_metric_and_the_ratio(visited: SimpleNamespace) -> None:
    rows = visited.page.locator("#reached tbody tr").all_inner_texts()
    assert len(rows) == 9
    assert all(row.split("\t")[1] == "WER" for row in rows)
    assert [row.split("\t")[4] for row in rows if row.startswith("lstm")] == ["1.00"] * 3


def test_scaling_is_shown_if_it_was_measured(browser: Any, visited: SimpleNamespace, tmp_path: Path) -> None:
    assert visited.page.is_hidden("#s-scaling")
    shown = visit(browser, write_page(scaled(comparison(tmp_path / "runs", seeds=1)), tmp_path)[0])
    cells = shown.page.locator("#scaling tbody tr").all_inner_texts()[2].split("\t")
    assert (cells[0], cells[5], cells[6], cells[7]) == ("4", "324", "3.00", "75.00")
    shown.page.close()


def test_the_looks_of_a_plan_are_drawn_with_a_row_each(browser: Any, visited: SimpleNamespace, tmp_path: Path) -> None:
    """A point per look of each question, within the margin as a band; a sweep without a plan has no such section."""
    assert visited.page.is_hidden("#s-looks")
    ended = planned()
    whole = replace(comparison(tmp_path / "runs", seeds=1), plan=ended.plan, course=ended.course)
    shown = visit(browser, write_page(whole, tmp_path)[0])
    shown.page.wait_for_selector("#looks-chart .scatterlayer .trace", state="attached")
    rows = [row.split("\t") for row in shown.page.locator("#looks tbody tr").all_inner_texts()]
    assert [(row[0], row[2], row[6]) for row in rows if row[0] == "rnn"] == [
        ("rnn", "3", "open"), ("rnn", "5", "open"), ("rnn", "8", "equivalent"),
    ]  # fmt: skip
    drawn = shown.page.evaluate(
        """document.getElementById('looks-chart').data.filter((trace) => trace.hoverinfo !== 'skip')
               .map((trace) => [trace.name, [...trace.y]])"""
    )
    expected = {name: [float(row[3].replace("−", "-")) for row in rows if row[0] == name] for name, _ in drawn}
    assert list(expected) == ["gru", "rnn", "sru", "fsmn"]
    assert all(points == pytest.approx(expected[name], abs=0.005) for name, points in drawn)
    (band,) = shown.page.evaluate("document.getElementById('looks-chart').layout.shapes")
    assert (band["y0"], band["y1"]) == (pytest.approx(-3), pytest.approx(3))
    assert shown.errors == []
    shown.page.close()


def test_a_search_has_a_panel_for_each_hyperparameter(browser: Any, visited: SimpleNamespace, tmp_path: Path) -> None:
    """On the scale that it drew from, the best marked; what was no search has no such section."""
    assert visited.page.is_hidden("#s-search")
    whole = comparison(tmp_path / "runs", seeds=1)
    tried = replace(whole, arms=[*searched(tmp_path), *whole.arms], factor=FACTOR)
    shown = visit(browser, write_page(tried, tmp_path)[0])
    shown.page.wait_for_selector("#search-chart .scatterlayer .trace", state="attached")
    chart = "document.getElementById('search-chart')"
    drawn = shown.page.evaluate(f"{chart}.data.map((trace) => [trace.name, [...trace.x], [...trace.y]])")
    assert drawn == [
        ["optimizer.lr", [0.001, 0.003, 0.01], pytest.approx([40, 20, 30])], ["best", [0.003], [20]],
        ["width", [64, 128, 64], pytest.approx([40, 20, 30])], ["best", [128], [20]],
    ]  # fmt: skip
    assert shown.page.evaluate(f"[{chart}.layout.xaxis.type, {chart}.layout.xaxis2.type]") == ["log", "linear"]
    assert shown.errors == []
    shown.page.close()


def test_a_click_and_a_key_sort_the_table(visited: SimpleNamespace) -> None:
    page = visited.page
    column = "#results tbody td:nth-child(3)"
    page.click("#results th:nth-child(3) button")
    rising = [float(text.split()[0]) for text in page.locator(column).all_inner_texts()]
    assert rising == sorted(rising)
    assert page.get_attribute("#results th:nth-child(3)", "aria-sort") == "ascending"
    page.focus("#results th:nth-child(3) button")
    page.keyboard.press("Enter")
    assert [float(text.split()[0]) for text in page.locator(column).all_inner_texts()] == rising[::-1]


def test_an_arm_is_switched_off_and_on_with_the_keyboard(visited: SimpleNamespace) -> None:
    page = visited.page
    before = [line["name"] for line in curves(page)]
    page.focus("#arms label:nth-child(2) input")
    page.keyboard.press("Space")
    assert [line["name"] for line in curves(page)] == [name for name in before if name != "gru"]
    page.keyboard.press("Space")
    assert [line["name"] for line in curves(page)] == before


def test_smoothing_makes_curves_smoother(visited: SimpleNamespace) -> None:
    page = visited.page

    def roughness() -> float:
        y = curves(page)[0]["y"]
        return sum(abs(a - 2 * b + c) for a, b, c in zip(y, y[1:], y[2:], strict=False))

    before = roughness()
    page.focus("#smoothing")
    for _ in range(12):
        page.keyboard.press("ArrowRight")
    assert page.inner_text("#smoothed") == "0.6"
    assert roughness() < before / 2


@pytest.mark.parametrize(("axis", "last"), [("epoch", 20), ("step", 800), ("audio", 40), ("time", 95.4)])
def test_the_axis_is_what_was_chosen(visited: SimpleNamespace, axis: str, last: float) -> None:
    visited.page.select_option("#axis", axis)
    assert curves(visited.page)[0]["x"][-1] == pytest.approx(last, rel=1e-3)


def test_other_values_and_each_seed(visited: SimpleNamespace) -> None:
    visited.page.select_option("#metric", "train/loss_epoch")
    visited.page.select_option("#seeds", "each")
    assert len(curves(visited.page)) == 9
    visited.page.check("#log")
    assert visited.page.evaluate("document.getElementById('curves').layout.yaxis.type") == "log"


def test_a_line_per_gpu_beside_the_mean(visited: SimpleNamespace) -> None:
    visited.page.select_option("#resource", "gpu_percent")
    names = visited.page.evaluate("document.getElementById('utilisation').data.map((line) => line.name)")
    assert [name for name in names if "lstm" in name] == ["lstm", "lstm, GPU 0", "lstm, GPU 1"]
    assert visited.page.locator("#resource option[value^=gpu_percent_]").count() == 0


def test_audio_plays(visited: SimpleNamespace) -> None:
    assert visited.page.locator("#worst > li").count() == 10
    played = visited.page.evaluate(
        """(async () => {
               const audio = document.querySelector('#worst audio');
               audio.muted = true;
               await audio.play();
               return audio.duration;
           })()"""
    )
    assert played == pytest.approx(3, abs=0.2)


def test_dark_and_light(browser: Any, visited: SimpleNamespace, file: Path) -> None:
    def background(page: Any) -> str:
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark = visit(browser, file, scheme="dark").page
    assert background(dark) != background(visited.page)
    light = background(visited.page)
    visited.page.click("#theme")
    assert background(visited.page) == background(dark) != light
    dark.close()


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_is_wider_than_a_phone(browser: Any, file: Path, width: int) -> None:
    page = visit(browser, file, width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_every_control_is_reached_by_the_tab_key(visited: SimpleNamespace) -> None:
    page, reached = visited.page, set()
    for _ in itertools.repeat(None, 60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.closest('[id]')?.id"))
    assert reached >= {"theme", "results", "metric", "axis", "seeds", "smoothing", "log", "arms"}


def test_markup_in_names_is_shown_as_text(browser: Any, tmp_path: Path) -> None:
    plain = comparison(tmp_path / "runs", seeds=1)
    name = "<img src=x onerror=alert(1)><b>"
    arms = [replace(plain.arms[0], name=name), *plain.arms[1:]]
    file = write_page(replace(plain, arms=arms, title=name), tmp_path)[0]
    visited = visit(browser, file)
    assert visited.page.inner_text("h1") == name
    assert visited.page.locator("main img, main b, svg img").count() == 0
    assert visited.errors == []
    visited.page.close()
