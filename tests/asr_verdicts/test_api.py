"""Systems compared from Python, and by the command of the wheel: asr-verdicts compare."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from asr_ablations.tools.files import REPOSITORY, SOURCE
from asr_verdicts.api import compare
from asr_verdicts.cli import main
from asr_verdicts.errors import UsageError
from asr_verdicts.report.document import report_verdicts
from asr_verdicts.report.files import write_texts
from tests.helpers import hypotheses as toolkits
from tests.helpers.notebooks import execute

SPOKEN = toolkits.references()


def heard(rate: float, seeds: int = 3) -> list[list[str]]:
    return [list(toolkits.recognised(SPOKEN, rate, seed).values()) for seed in range(seeds)]


def test_lists_of_texts() -> None:
    systems = {"base": heard(0.15), "mine": heard(0.10)}
    speakers = [id_[:3] for id_ in SPOKEN]
    result = compare(systems, list(SPOKEN.values()), speakers=speakers, seeds=3, margin=1.0)
    (verdict,) = result.verdicts
    assert (verdict.arm, verdict.baseline, verdict.outcome) == ("mine", "base", "better")
    assert (verdict.seeds, verdict.primary) == ({"base": 3, "mine": 3}, True)
    assert (verdict.estimate.speakers, verdict.estimate.unit) == (10, "speakers")
    assert verdict.interval == (verdict.low, verdict.high)
    assert verdict.low < verdict.difference < verdict.high < 0
    assert verdict.difference == pytest.approx(verdict.rate - verdict.baseline_rate)
    assert str(verdict) == verdict.sentence
    assert repr(result).splitlines()[0] == verdict.sentence
    assert [(row["arm"], row["n"]) for row in result.table()] == [("base", 3), ("mine", 3)]
    unknown = compare(systems, list(SPOKEN.values())).verdicts[0]
    assert (unknown.estimate.speakers, unknown.estimate.unit) == (60, "utterances")
    systems = {"base": heard(0.15), "<b>mine</b>": heard(0.10)}
    page = compare(systems, list(SPOKEN.values()), seeds=3)._repr_html_()
    assert "&lt;b&gt;mine&lt;/b&gt; is better than base on test" in page
    assert page.count("<table>") == 1
    assert "<svg" in page
    assert "speakers are unknown" in page
    assert "<b>mine" not in page


def test_names_of_systems_command_no_terminal_and_no_reader(tmp_path: Path) -> None:
    names = ["a\x1b[31m_\x07", "b\u202ec\u200f"]
    systems = {name: heard(rate) for name, rate in zip(names, (0.1, 0.2), strict=True)}
    write_texts(report_verdicts(compare(systems, list(SPOKEN.values())).comparison), tmp_path)
    for name in ("table.md", "table.csv", "table.tex", "appendix.tex"):
        content = (tmp_path / name).read_text(encoding="utf-8")
        assert not set(content) & set("\x1b\x07\u202e\u200f"), name
        backslash = r"\textbackslash{}" if name.endswith("tex") else "\\"
        assert f"b{backslash}u202ec{backslash}u200f" in content, name


def test_the_notebook_has_the_output_of_today() -> None:
    """The sentences and what is printed; tables have floats whose last digit is the machine's."""
    notebook = json.loads((REPOSITORY / "docs" / "verdicts.ipynb").read_text(encoding="utf-8"))
    shown, today = (
        [
            output.get("text") or output["data"]["text/plain"]
            for cell in content["cells"]
            for output in cell.get("outputs", [])
            if "is better than" in str(output)
        ]
        for content in (notebook, execute(notebook))
    )
    assert len(shown) == 3
    assert shown == today, "PYTHONPATH=src python -m tests.helpers.notebooks docs/verdicts.ipynb"


def test_every_form_gives_the_same_verdict(tmp_path: Path) -> None:
    toolkits.write_seeds(tmp_path, "hyp.trn", toolkits.trn, {"base": 0.15, "mine": 0.10}, 3)
    (tmp_path / "ref").write_text(toolkits.kaldi(SPOKEN))
    (tmp_path / "utt2spk").write_text("".join(f"{id_} {id_[:3]}\n" for id_ in SPOKEN))
    listed = {"base": heard(0.15), "mine": heard(0.10)}
    (expected,) = compare(listed, list(SPOKEN.values()), speakers=[id_[:3] for id_ in SPOKEN], seeds=3).verdicts
    forms: dict[str, Any] = {
        "pattern": lambda arm, _: str(tmp_path / arm / "seed*" / "hyp.trn"),
        "paths": lambda arm, _: sorted((tmp_path / arm).rglob("hyp.trn")),
        "names": lambda arm, _: sorted(map(str, (tmp_path / arm).rglob("hyp.trn"))),
        "by id": lambda _, rate: [toolkits.recognised(SPOKEN, rate, seed) for seed in range(3)],
    }
    for name, form in forms.items():
        systems = {arm: form(arm, rate) for arm, rate in {"base": 0.15, "mine": 0.10}.items()}
        (verdict,) = compare(systems, tmp_path / "ref", speakers=tmp_path / "utt2spk", seeds=3).verdicts
        assert verdict.sentence == expected.sentence, name


def test_mistakes() -> None:
    cases: list[tuple[Any, Any, Any, str]] = [
        ({}, ["x"], {}, "systems: expected a dict of hypotheses by name, .*, not an empty one"),
        (["x"], ["x"], {}, "systems: expected a dict of hypotheses by name, .*, not a list"),
        ({"a": []}, ["x"], {}, "a: expected transcripts or files, found none"),
        ({"a": ["x"]}, ["x", "y"], {}, r"a: no hypothesis for 1 id \(2\)"),
        ({"a": ["x", 3]}, ["x", "y"], {}, "a: expected transcripts or files, found '3'"),
        ({"a": ["x"]}, ["x"], {"speakers": ["p", "q"]}, "speakers: 2 for 1 utterances"),
        ({"a": "absent/*.trn"}, ["x"], {}, "a: no file matches the pattern"),
        ({"a": ["x"], "b": ["x"]}, ["x"], {"baseline": "c"}, "baseline=c: expected a or b"),
    ]
    for systems, references, options, message in cases:
        with pytest.raises(UsageError, match=message):
            compare(systems, references, **options)


@pytest.mark.parametrize("page", [REPOSITORY / "docs" / "verdicts.md", SOURCE / "asr_verdicts" / "README.md"])
def test_the_python_of_the_pages_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(page), "exec"), {})
    assert re.search(r"; [23] speakers\. This is about these models", capsys.readouterr().out)
    if "result.save" in block:
        names = {path.name for path in (tmp_path / "report").iterdir()}
        assert {"comparison.json", "differences.svg", "table.md", "table.tex"} <= names
        assert "index.html" not in names


RATES = {"base": 0.15, "mine": 0.06}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    spoken = toolkits.write_seeds(tmp_path, "hyp.trn", toolkits.trn, RATES, 3)
    (tmp_path / "ref.trn").write_text(toolkits.trn(spoken))
    monkeypatch.chdir(tmp_path)
    return ["compare", "--references", "ref.trn", "base=base/seed*/hyp.trn", "mine=mine/seed*/hyp.trn"]


def test_files_in_and_a_verdict_out(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*files, "--speaker-of", "^([^-]+)-", "--normalize", "case"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "mine is better than base on test: " in text
    assert "3 seeds, 10 speakers" in text
    written = json.loads(Path("base-mine/comparison.json").read_text(encoding="utf-8"))
    assert written["differences"][0]["outcome"] == "better"
    assert {"reached", "gradient_norm", "spent"}.isdisjoint(written), "nothing of training, which nobody knows"
    assert Path("base-mine/differences.svg").exists()


@pytest.fixture
def no_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asr_verdicts.report.figures", None)
    monkeypatch.delattr("asr_verdicts.report.figures", raising=False)


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib_there_are_tables(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*files, "--out", "o"]) == 0
    assert "pip install 'asr-verdicts[figures]'" in capsys.readouterr().out
    assert {path.suffix for path in Path("o").iterdir()} == {".md", ".csv", ".tex", ".txt", ".json"}


@pytest.mark.usefixtures("no_matplotlib")
def test_a_gate_ends_with_a_code_and_the_sentence(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for gate, margin, baseline, code in (
        ("worse", [], "base", 0), ("worse", [], "mine", 1), ("not-equivalent", ["--margin=1"], "base", 0),
        ("not-equivalent", ["--margin=30"], "mine", 1),
    ):  # fmt: skip
        options = [f"--fail-if={gate}", f"--baseline={baseline}", "--json", *margin]
        assert main([*files, "--speaker-of", "^([^-]+)-", *options]) == code
        printed = capsys.readouterr()
        (difference,) = [row for row in json.loads(printed.out)["differences"] if row["set"] == "test"]
        assert difference["outcome"] == ("better" if baseline == "base" else "worse")
        assert printed.err.startswith(f"--fail-if={gate}: base is worse than mine on test: ") == bool(code)


@pytest.mark.usefixtures("no_matplotlib")
def test_the_documented_workflow_ends_with_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```yaml\n(on:.*?)```", (REPOSITORY / "docs" / "verdicts.md").read_text(), re.S)
    command = yaml.safe_load(block)["jobs"]["verdict"]["steps"][-1]["run"]
    for rate, code in ((0.15, 1), (0.03, 0)):
        folder = tmp_path / f"{rate}"
        spoken = toolkits.write_seeds(folder, "hyp.trn", toolkits.trn, {"release": 0.06, "nightly": rate}, 1)
        monkeypatch.chdir(folder)
        Path("ref.trn").write_text(toolkits.trn(spoken))
        Path("utt2spk").write_text("".join(f"{name} {name.split('-')[0]}\n" for name in spoken))
        for name in ("release", "nightly"):
            Path(name, "seed0", "hyp.trn").rename(Path(name, "hyp.trn"))
        assert main(shlex.split(command)[1:]) == code


def test_mistakes_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.trn").write_text("the cat (a-1)\n")
    for arguments, message in (
        (["--references", "none.trn", "a=a.trn"], "error: none.trn: there is no such file"),
        (["a=none*.trn"], "error: a=none*.trn: no file matches the pattern"),
        (["a=a.trn", "--normalise", "all"], "error: --normalise=all: expected none, case, punctuation"),
    ):
        assert main(["compare", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(message)
