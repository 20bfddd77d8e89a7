"""The command of the wheel: asr-verdicts compare."""

import json
import sys
from pathlib import Path

import pytest

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
