"""The command of the wheel: asr-verdicts compare."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.cli import main
from tests.helpers import hypotheses as toolkits

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


def test_without_matplotlib_there_are_tables(
    files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asr_verdicts.report.figures", None)
    monkeypatch.delattr("asr_verdicts.report.figures", raising=False)
    assert main([*files, "--out", "o"]) == 0
    assert "pip install 'asr-verdicts[figures]'" in capsys.readouterr().out
    assert {path.suffix for path in Path("o").iterdir()} == {".md", ".csv", ".tex", ".txt", ".json"}


@pytest.mark.parametrize(
    ("gate", "margin", "baseline", "code"),
    [
        ("worse", None, "base", 0),
        ("worse", None, "mine", 1),
        ("not-equivalent", "1", "base", 0),
        ("not-equivalent", "1", "mine", 1),
        ("not-equivalent", "30", "mine", 1),
    ],
)
def test_a_gate_ends_with_a_code_and_the_sentence(
    gate: str, margin: str | None, baseline: str, code: int, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--fail-if={gate}", f"--baseline={baseline}", "--json", *([f"--margin={margin}"] if margin else [])]
    assert main([*files, "--speaker-of", "^([^-]+)-", *options]) == code
    printed = capsys.readouterr()
    (difference,) = [row for row in json.loads(printed.out)["differences"] if row["set"] == "test"]
    assert difference["outcome"] == ("better" if baseline == "base" else "worse")
    assert printed.err.startswith(f"--fail-if={gate}: base is worse than mine on test: ") == bool(code)


@pytest.mark.parametrize(("rate", "code"), [(0.15, 1), (0.06, 0), (0.03, 0)])
def test_the_documented_workflow_ends_with_the_verdict(
    rate: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```yaml\n(on:.*?)```", (REPOSITORY / "docs" / "verdicts.md").read_text(), re.S)
    command = yaml.safe_load(block)["jobs"]["verdict"]["steps"][-1]["run"]
    spoken = toolkits.write_seeds(tmp_path, "hyp.trn", toolkits.trn, {"release": 0.06, "nightly": rate}, 1)
    monkeypatch.chdir(tmp_path)
    Path("ref.trn").write_text(toolkits.trn(spoken))
    ids = re.findall(r"\((.*?)\)", toolkits.trn(spoken))
    Path("utt2spk").write_text("".join(f"{name} {name.split('-')[0]}\n" for name in ids))
    for name in ("release", "nightly"):
        Path(name, "seed0", "hyp.trn").rename(Path(name, "hyp.trn"))
    assert main(shlex.split(command)[1:]) == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--references", "none.trn", "a=a.trn"], "error: none.trn: there is no such file"),
        (["compare", "a=none*.trn"], "error: a=none*.trn: no file matches the pattern"),
        (["compare", "a=a.trn", "--normalise", "all"], "error: --normalise=all: expected none, case, punctuation"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.trn").write_text("the cat (a-1)\n")
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(message)
