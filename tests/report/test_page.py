"""The page of a comparison, and how its figures look."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soundfile
import wandb

from asr_ablations.report.figures import write_figures
from asr_ablations.report.inspection import recording, worst
from asr_ablations.report.page import content, embedded, render, write_page
from asr_ablations.report.training_report import report_comparison, sections
from asr_ablations.report.wandb import log_comparison
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.design import Options
from asr_verdicts.planned_looks import spent
from asr_verdicts.record import Record, SetResult
from asr_verdicts.report.files import write_texts
from asr_verdicts.report.looks import cost_lines, cost_section, look_rows, looks_section
from tests.helpers import invented_records
from tests.helpers.browser import chromium
from tests.helpers.comparison import comparison, scaled
from tests.helpers.invented_records import records
from tests.helpers.planned import HOURS, LOOKS, MARGIN, RATES, planned, run
from tests.helpers.wandb_file import read_run

MARKUP = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>\u2028"


def drawn(compared: Comparison, folder: Path, figures: Sequence[str] = ()) -> Path:
    """The file of a comparison's page, with these figures in it."""
    written = write_figures(compared, folder, figures, ["svg"]) if figures else []  # the page takes no other
    return write_page(report_comparison(compared), folder, written)[0]


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
    for row in (row for arm in handmade.arms for one in arm.runs for row in one.utterances):
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


STATES = {"rnn=gru": "better", "rnn=rnn": "equivalent", "rnn=sru": "undecided", "rnn=fsmn": "worse"}


@pytest.fixture(scope="module")
def ended() -> Comparison:
    return planned()


@pytest.fixture(scope="module")
def under_way() -> Comparison:
    return planned(LOOKS[0])


def test_the_arms_end_as_they_were_made_and_the_interval_decides(ended: Comparison, under_way: Comparison) -> None:
    """Better and worse: without 0; equivalent: within the margin; undecided: neither."""
    assert {row["arm"]: row["state"] for row in look_rows(ended)} == STATES
    open_ = {"rnn=rnn": "open", "rnn=sru": "open"}
    assert {row["arm"]: row["state"] for row in look_rows(under_way)} == {**STATES, **open_}
    for arm, state in STATES.items():
        own = [row for row in look_rows(ended) if row["arm"] == arm]
        widths = [row["high"] - row["low"] for row in own]
        assert widths == sorted(widths, reverse=True)
        last = own[-1]
        assert (last["low"] > 0 or last["high"] < 0) == (state in ("better", "worse"))
        within = last["equal_low"] > -MARGIN and last["equal_high"] < MARGIN
        assert within == (state == "equivalent")


def test_the_cost_counts_what_the_looks_used(ended: Comparison, under_way: Comparison) -> None:
    """By hand: 3 + 8 + 8 + 3 seeds of the arms and 8 of the baseline; of the fixed design 5 arms of 8 seeds."""
    assert ended.course.plan is not None
    cost = spent(ended.course.plan, ended.course, ended.arms)
    assert (cost.runs, cost.fixed, cost.saved, cost.untimed, cost.taken_over) == (30, 40, 10, 0, {})
    assert cost.hours == pytest.approx(30 * HOURS)
    assert cost.hours_saved == pytest.approx(10 * HOURS)
    assert under_way.course.plan is not None
    early = spent(under_way.course.plan, under_way.course, under_way.arms)
    assert (early.runs, early.saved) == (15, 10)
    (line,) = cost_lines(under_way)
    assert "10 of 40 saved for certain so far" in line
    comparison = planned(names=["lstm", "gru", "rnn"], lost=1)
    assert comparison.course.plan is not None
    cost = spent(comparison.course.plan, comparison.course, comparison.arms)
    assert (cost.untimed, cost.hours) == (1, pytest.approx((cost.runs - 1) * HOURS))
    runs = [run(name, seed) for name in ("lstm", "gru") for seed in range(3)]
    comparison = compare(records(runs), Options(baseline="lstm"), "test")
    assert look_rows(comparison) == []
    assert cost_lines(comparison) == []
    assert not {"Looks", "Cost"} & {section.heading for section in sections(comparison)}


def test_runs_that_were_taken_over_are_named_by_their_sweep(tmp_path: Path) -> None:
    """A folder of the sweep that is a link to a run of another one."""
    whole = planned(names=["lstm", "gru"], folder=tmp_path / "until")
    (tmp_path / "until").mkdir()
    for seed in range(2):
        (tmp_path / "rnn_type" / f"rnn=lstm-{seed}").mkdir(parents=True)
        (tmp_path / "until" / f"rnn=lstm-{seed}").symlink_to(f"../rnn_type/rnn=lstm-{seed}")
    assert whole.course.plan is not None
    cost = spent(whole.course.plan, whole.course, whole.arms)
    assert cost.taken_over == {"rnn_type": 2}
    assert cost.hours_taken_over == pytest.approx(2 * HOURS)
    assert "2 from rnn_type (1 h of the training above)" in " ".join(cost_section(whole).lines)


def test_the_json_holds_plan_looks_and_cost(ended: Comparison, tmp_path: Path) -> None:
    (path,) = [path for path in write_texts(report_comparison(ended), tmp_path) if path.name == "comparison.json"]
    written = json.loads(path.read_text())
    assert written["plan"]["arms"] == [f"rnn={name}" for name in RATES]
    assert written["plan"]["looks"] == LOOKS
    assert written["looks"] == look_rows(ended)
    assert (written["spent"]["runs"], written["spent"]["saved"]) == (30, 10)


@pytest.mark.slow  # W&B's own process
def test_the_comparison_at_wandb_has_look_and_states(
    ended: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline, as W&B writes it: a table of the looks, and the state of each question in the run's summary."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    log_comparison(ended, "mine", tmp_path)
    wandb.teardown()  # its process writes the last records after `finish`
    (path,) = tmp_path.rglob("*.wandb")
    logged = read_run(path)
    assert logged["summary"]["until/look"] == len(LOOKS)
    assert {arm: logged["summary"][f"until/state/{arm}"] for arm in STATES} == STATES
    assert "comparison/looks/path" in {key for row in logged["history"] for key in row}
    (table,) = tmp_path.rglob("looks_*.table.json")
    assert json.loads(table.read_text())["data"] == looks_section(ended).rows


def test_a_row_per_question_and_look_until_it_was_decided(ended: Comparison) -> None:
    places = [(row["arm"], row["look"], row["seeds"]) for row in look_rows(ended)]
    through = {"rnn=gru": 1, "rnn=rnn": 3, "rnn=sru": 3, "rnn=fsmn": 1}
    assert places == [(arm, look, LOOKS[look - 1]) for arm, last in through.items() for look in range(1, last + 1)]
    # a chance is told from five seeds on, and not at the last look, after which there is no other
    told = {(row["arm"], row["seeds"]) for row in look_rows(ended) if row["chance"] is not None}
    assert told == {("rnn=rnn", 5), ("rnn=sru", 5)}
    shown = {section["heading"]: section for section in content(report_comparison(ended))["sections"]}  # type: ignore[attr-defined]
    assert shown["Looks"]["rows"] == looks_section(ended).rows
    assert shown["Cost"]["lines"] == cost_section(ended).lines
