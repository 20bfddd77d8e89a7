"""The file of the page: its content, its size, and that no text can break out of its data."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asr_ablations.comparison.result import Comparison
from asr_ablations.report.page import embedded, render, write_page
from asr_ablations.report.page.content import content
from asr_ablations.report.page.utterances import recording, worst
from asr_ablations.runs.record import RunRecord
from tests.helpers import invented_records
from tests.helpers.comparison import comparison

MARKUP = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>\u2028"


@pytest.fixture(scope="module")
def handmade(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return comparison(tmp_path_factory.mktemp("runs"))


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


def of_corpus(root: Path | None) -> RunRecord:
    """A run whose config names this folder as data.root."""
    run = invented_records.finished("rnn=gru", 0, [])
    return replace(run, config={**run.config, "data": {"root": None if root is None else str(root)}})


def test_one_file_below_three_megabytes(handmade: Comparison, tmp_path: Path) -> None:
    (path,) = write_page(handmade, tmp_path)
    assert path == tmp_path / "index.html"
    assert list(tmp_path.iterdir()) == [path]
    assert 1.5e6 < path.stat().st_size < 3e6


def test_the_page_refers_to_nothing_outside(handmade: Comparison) -> None:
    text = re.sub(r'(?s)<script type="text/plain" id="plotly">.*?</script>', "", render(handmade))
    assert not re.findall(r"""(?:src|href)=["']?(?!data:|#)[^"'\s>]+""", text)
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}


def test_text_of_a_run_cannot_leave_the_data(handmade: Comparison) -> None:
    hostile = replace(
        handmade,
        title=MARKUP + "@@plotly@@",
        question=MARKUP,
        verdicts=[replace(handmade.verdicts[0], sentence=MARKUP)],
        arms=[replace(arm, name=MARKUP + arm.name) for arm in handmade.arms],
        rows=[{MARKUP: MARKUP, "wer": float("nan")}],
    )
    plain, attacked = Elements(render(handmade)), Elements(render(hostile))
    assert attacked.tags == plain.tags
    data = json.loads(attacked.data)
    assert data["title"] == MARKUP + "@@plotly@@"
    assert data["rows"] == [{MARKUP: MARKUP, "wer": None}]


def test_arms_with_the_same_model_share_its_drawing(tmp_path: Path) -> None:
    compared = comparison(tmp_path)
    assert content(compared)["networks"] == []  # records without a drawing
    for arm, text in zip(compared.arms, ("a  1\n", MARKUP, "a  1\n"), strict=False):
        (arm.runs[0].folder / "model.txt").write_text(text, encoding="utf-8")
    first, second, *others = [arm.name for arm in compared.arms]
    networks = content(compared)["networks"]
    assert networks == [{"arms": [first, *others[:1]], "drawing": "a  1\n"}, {"arms": [second], "drawing": MARKUP}]
    assert Elements(render(compared)).tags.count("pre") == 0


@pytest.mark.parametrize("value", [MARKUP, [float("inf")], {"a": np.float32(1.5)}, "\ud800", {"b": Path("x")}])
def test_embedded_json_is_strict_and_safe(value: object) -> None:
    text = embedded(value)
    assert not set("<>&\u2028\u2029") & set(text)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(text, parse_constant=refuse)


def test_the_worst_are_those_with_the_highest_rates(handmade: Comparison) -> None:
    rates: dict[tuple[str, str], list[float]] = {}
    for row in (row for arm in handmade.arms for run in arm.runs for row in run.utterances):
        errors = row["substitutions"] + row["deletions"] + row["insertions"]
        rates.setdefault((row["set"], row["id"]), []).append(errors / row["words"])
    means = sorted((float(np.mean(values)) for values in rates.values()), reverse=True)
    shown = worst(handmade)
    assert [utterance["rate"] for utterance in shown] == pytest.approx(means[:10])
    assert all(len(utterance["recognised"]) == len(handmade.arms) for utterance in shown)


def test_a_recording_is_the_audio_of_the_utterance(tmp_path: Path) -> None:
    """The part from `offset` on: the first second is silence, the second a tone."""
    samples = np.concatenate([np.zeros(16000), 0.5 * np.sin(np.arange(16000) * 0.2)])
    soundfile.write(tmp_path / "a.flac", samples, 16000)
    row = {"audio": str(tmp_path / "a.flac"), "offset": "1", "duration": "1"}
    address = recording(of_corpus(tmp_path), row, 10**6)["audio"]
    assert address is not None
    (tmp_path / "a.mp3").write_bytes(base64.b64decode(address.partition(",")[2]))
    played, rate = soundfile.read(tmp_path / "a.mp3")
    assert rate == 16000
    assert len(played) / rate == pytest.approx(1, abs=0.15)
    assert np.sqrt(np.mean(played**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.15)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"audio": "/does/not/exist.flac", "offset": "0", "duration": "1"},
        {"audio": "{folder}/a.flac", "offset": "0", "duration": "1"},
        {"audio": "", "offset": "", "duration": ""},
        {"audio": "\0", "offset": "0", "duration": "1"},
    ],
    ids=["no column", "missing", "no audio", "empty", "no path"],
)
def test_what_cannot_be_played_is_left_out(row: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.flac").write_text("no audio")
    row = {key: value.format(folder=tmp_path) for key, value in row.items()}
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
    monkeypatch.setattr("asr_ablations.report.page.utterances.AUDIO_BYTES", int(2.5 * len(address)))
    assert sum(bool(shown["audio"]) for shown in worst(handmade)) == 2


def test_the_config_table_shows_what_differs(handmade: Comparison) -> None:
    shown = {row["key"]: row for row in content(handmade)["config"]}
    assert set(shown) == {"rnn._target_", "seed"}
    assert shown["seed"]["arm gru"] == "0, 1, 2"


def test_environments_that_are_the_same_are_shown_once(handmade: Comparison) -> None:
    (only,) = content(handmade)["environments"]
    assert len(only["runs"]) == 9
