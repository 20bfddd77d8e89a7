"""The project from Python."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import asr_ablations as aa
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.errors import UsageError
from asr_verdicts.report.document import report_verdicts
from asr_verdicts.report.files import write_texts
from tests.helpers import hypotheses as toolkits
from tests.helpers.interpreter import SOURCE
from tests.helpers.run_folders import write_sweep

RNN = {"factor": "rnn", "question": "Is a GRU as good?", "baseline": "lstm"}
SPOKEN = toolkits.references()
PAGE = REPOSITORY / "docs" / "python.md"
NOTEBOOKS = sorted((REPOSITORY / "docs").glob("*.ipynb"))


def heard(rate: float, seeds: int = 3) -> list[list[str]]:
    return [list(toolkits.recognised(SPOKEN, rate, seed).values()) for seed in range(seeds)]


def in_python(program: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_changes_nothing_of_others(tmp_path: Path) -> None:
    """torchmetrics, imported afterwards, draws its plots; and the import itself brings nothing in."""
    program = (
        "import sys\nbefore = [*sys.meta_path]\nimport asr_ablations\nassert before == sys.meta_path\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'numpy', 'torch', 'scipy', 'matplotlib'}))\n"
        "import torchmetrics.text\n"
        "metric = torchmetrics.text.WordErrorRate()\nmetric.update(['a'], ['b'])\n"
        "print(type(metric.plot()[0]).__name__)"
    )
    assert in_python(program, tmp_path).splitlines() == ["", "Figure"]


def test_the_version_is_that_of_the_distribution() -> None:
    (version,) = re.findall(r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert aa.__version__ == version


def test_the_names_are_listed_and_others_are_none() -> None:
    assert {"open", "compare", "load", "__version__"} <= set(dir(aa))
    with pytest.raises(AttributeError, match="has no attribute 'campare'"):
        aa.campare  # noqa: B018


def test_lists_of_texts() -> None:
    systems = {"base": heard(0.15), "mine": heard(0.10)}
    speakers = [id_[:3] for id_ in SPOKEN]
    result = aa.compare(systems, list(SPOKEN.values()), speakers=speakers, seeds=3, margin=1.0)
    (verdict,) = result.verdicts
    assert (verdict.arm, verdict.baseline, verdict.outcome) == ("mine", "base", "better")
    assert (verdict.seeds, verdict.primary) == ({"base": 3, "mine": 3}, True)
    assert verdict.estimate is not None
    assert (verdict.estimate.speakers, verdict.estimate.unit) == (10, "speakers")
    assert verdict.interval == (verdict.low, verdict.high)
    assert verdict.low < verdict.difference < verdict.high < 0
    assert verdict.difference == pytest.approx(verdict.rate - verdict.baseline_rate)
    assert str(verdict) == verdict.sentence
    assert [(row["arm"], row["n"]) for row in result.table()] == [("base", 3), ("mine", 3)]
    unknown = aa.compare(systems, list(SPOKEN.values())).verdicts[0]
    assert unknown.estimate is not None
    assert (unknown.estimate.speakers, unknown.estimate.unit) == (60, "utterances")


@pytest.mark.parametrize("form", ["pattern", "paths", "names", "by id"])
def test_every_form_gives_the_same_verdict(form: str, tmp_path: Path) -> None:
    toolkits.write_seeds(tmp_path, "hyp.trn", toolkits.trn, {"base": 0.15, "mine": 0.10}, 3)
    (tmp_path / "ref").write_text(toolkits.kaldi(SPOKEN))
    (tmp_path / "utt2spk").write_text("".join(f"{id_} {id_[:3]}\n" for id_ in SPOKEN))
    forms: dict[str, Any] = {
        "pattern": lambda arm, _: str(tmp_path / arm / "seed*" / "hyp.trn"),
        "paths": lambda arm, _: sorted((tmp_path / arm).rglob("hyp.trn")),
        "names": lambda arm, _: sorted(map(str, (tmp_path / arm).rglob("hyp.trn"))),
        "by id": lambda _, rate: [toolkits.recognised(SPOKEN, rate, seed) for seed in range(3)],
    }
    systems = {arm: forms[form](arm, rate) for arm, rate in {"base": 0.15, "mine": 0.10}.items()}
    (verdict,) = aa.compare(systems, tmp_path / "ref", speakers=tmp_path / "utt2spk", seeds=3).verdicts
    listed = {"base": heard(0.15), "mine": heard(0.10)}
    (expected,) = aa.compare(listed, list(SPOKEN.values()), speakers=[id_[:3] for id_ in SPOKEN], seeds=3).verdicts
    assert verdict.sentence == expected.sentence


def test_a_notebook_shows_sentence_table_and_interval_and_no_markup_of_others() -> None:
    systems = {"base": heard(0.15), "<b>mine</b>": heard(0.10)}
    page = aa.compare(systems, list(SPOKEN.values()), seeds=3)._repr_html_()
    assert "&lt;b&gt;mine&lt;/b&gt; is better than base on test" in page
    assert page.count("<table>") == 1
    assert "<svg" in page
    assert "speakers are unknown" in page
    assert "<b>mine" not in page


def test_names_of_systems_command_no_terminal_and_no_reader(tmp_path: Path) -> None:
    names = ["a\x1b[31m_\x07", "b\u202ec\u200f"]
    systems = {name: heard(rate) for name, rate in zip(names, (0.1, 0.2), strict=True)}
    write_texts(report_verdicts(aa.compare(systems, list(SPOKEN.values())).comparison), tmp_path)
    for name in ("table.md", "table.csv", "table.tex", "appendix.tex"):
        content = (tmp_path / name).read_text(encoding="utf-8")
        assert not set(content) & set("\x1b\x07\u202e\u200f"), name
        backslash = r"\textbackslash{}" if name.endswith("tex") else "\\"
        assert f"b{backslash}u202ec{backslash}u200f" in content, name


def test_the_python_form_takes_a_language_and_words_to_drop() -> None:
    spoken = {"ź1": "IŞIK <unk> uh", "ź2": "iki"}
    said = {"z\u03011": "ışık", "z\u03012": "iki"}
    options = {"speakers": {"ź1": "a", "z\u03012": "b"}, "normalise": "case", "language": "tr", "drop": "<unk>,uh"}
    (row,) = aa.compare({"mine": said}, spoken, **options).table()
    assert row["wer"] == 0


def test_files_are_written(tmp_path: Path) -> None:
    result = aa.compare({"base": heard(0.15), "mine": heard(0.10)}, list(SPOKEN.values()), seeds=3)
    names = {path.name for path in result.save(tmp_path / "out")}
    assert {"table.md", "table.tex", "comparison.json", "differences.pdf"} <= names
    assert "index.html" not in names


@pytest.mark.parametrize(
    ("systems", "references", "options", "message"),
    [
        ({}, ["x"], {}, "systems: expected a dict of hypotheses by name, .*, not an empty one"),
        (["x"], ["x"], {}, "systems: expected a dict of hypotheses by name, .*, not a list"),
        ({"a": []}, ["x"], {}, "a: expected texts, or files; found none"),
        ({"a": ["x"]}, ["x", "y"], {}, r"a: no hypothesis for 1 id \(2\)"),
        ({"a": ["x", 3]}, ["x", "y"], {}, "a: expected texts, or files; found '3'"),
        ({"a": ["x"]}, None, {}, "it holds no references"),
        ({"a": ["x"]}, ["x"], {"speakers": ["p", "q"]}, "speakers: 2 for 1 utterances"),
        ({"a": "absent/*.trn"}, ["x"], {}, "a: no file fits the pattern"),
        ({"a": ["x"], "b": ["x"]}, ["x"], {"baseline": "c"}, "baseline=c: expected a or b"),
    ],
)
def test_mistakes(systems: Any, references: Any, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        aa.compare(systems, references, **options)


def test_runs_of_a_sweep(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "outputs", {"rnn=lstm": 0.1, "rnn=gru": 0.4}, seeds=3, ablation=RNN)
    runs = aa.open(folder)
    assert len(runs) == 6
    table = runs.table()
    assert {row["seed"] for row in table} == {0, 1, 2}
    assert {row["set"] for row in table} == {"test"}
    assert "<table>" in table._repr_html_()
    name = runs.names[0]
    assert runs.utterances(name)[0]["words"] > 0
    assert "epoch" in runs.metrics(name)[0]
    with pytest.raises(UsageError, match="other: there is no such run; expected "):
        runs.metrics("other")
    (verdict,) = runs.compare().verdicts
    assert re.match("rnn=gru is worse than rnn=lstm on test: ", verdict.sentence)
    with pytest.raises(UsageError, match="there is no such folder"):
        aa.open(tmp_path / "absent")


def test_a_table_is_a_frame_where_pandas_is(tmp_path: Path) -> None:
    table = aa.compare({"a": ["x"]}, ["x"]).table()
    try:
        import pandas
    except ImportError:
        with pytest.raises(UsageError, match="pip install pandas"):
            table.frame()
        return
    assert isinstance(table.frame(), pandas.DataFrame)


@pytest.mark.slow
def test_a_run_transcribes(memorised_run: Path) -> None:
    runs = aa.open(memorised_run)
    row = runs.utterances(runs.names[0])[0]
    transcript = aa.load(memorised_run).transcribe(row["audio"])
    assert transcript.text == row["hypothesis"]
    assert all(0 <= word.confidence <= 1 and word.start < word.end for word in transcript.words)


def test_the_systems_of_the_page_run(tmp_path: Path) -> None:
    first, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "of these systems alone, 3 speakers" in in_python(first, tmp_path)
    assert {"comparison.json", "differences.svg"} <= {path.name for path in (tmp_path / "report").iterdir()}


@pytest.mark.slow
def test_the_runs_of_the_page_run(memorised_run: Path, tmp_path: Path) -> None:
    _, second = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    audio = aa.open(memorised_run).utterances(memorised_run.name)[0]["audio"]
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "rnn_type").symlink_to(memorised_run.parent)
    in_python(second.replace('"a.wav"', f'"{audio}"'), tmp_path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebooks_run(path: Path, tmp_path: Path) -> None:
    """Every cell in order, in a new interpreter."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert sources
    in_python("\n".join(sources), tmp_path)
