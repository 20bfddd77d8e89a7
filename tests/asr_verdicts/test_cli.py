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
