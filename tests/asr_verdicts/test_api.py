"""Systems compared from Python."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from asr_ablations.tools.files import REPOSITORY, SOURCE
from asr_verdicts.api import compare
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
