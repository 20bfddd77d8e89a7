"""src/compare.py and src/reproduce.py."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from asr_ablations.commands import compare, reproduce
from asr_ablations.tools.files import REPOSITORY
from tests.helpers.command import clean_environment, run_folders
from tests.helpers.interpreter import expect, python
from tests.helpers.run_folders import edit, write_run, write_sweep
from tests.helpers.support import tiny_overrides

RNN = {"factor": "rnn", "question": "Is a GRU as good?", "baseline": "lstm"}
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    return write_sweep(tmp_path / "outputs", {"rnn=lstm": 0.1, "rnn=gru": 0.4}, seeds=3, ablation=RNN)


def test_it_prints_and_writes(sweep: Path, capsys: Capture) -> None:
    assert compare.main([str(sweep), "--no-page"]) == 0
    out = capsys.readouterr().out
    lines = out[: out.index("wrote")].splitlines()
    assert lines[0] == "sweep: Is a GRU as good?"
    rows = [line.split() for line in lines if line.startswith("  rnn=")]
    assert [row[0] for row in rows] == ["rnn=lstm", "rnn=gru"]
    assert rows[1][-1] == "worse"
    assert any(line.startswith("rnn=gru is worse than rnn=lstm on test: ") for line in lines)
    assert max(map(len, lines)) <= 80
    assert "matched pairs" not in out
    names = {path.name for path in (sweep / "comparison").iterdir()}
    tables = {"table.md", "table.csv", "table.tex", "appendix.tex"}
    assert names == {*tables, "methods.txt", "comparison.json", "timing.json"}
    assert compare.main([str(sweep), "--no-page", "--full"]) == 0, "its own folder is no run"
    out = capsys.readouterr().out
    for part in ("Differences to rnn=lstm", "matched pairs p", "Evidence", "to detect a true difference of"):
        assert part in out


def test_equal_results_give_equal_bytes_whatever_the_times_and_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same sweep on a fast and on a slow machine, compared by a relative and by an absolute path."""
    rates = {"rnn=gru": 0.4, "rnn=lstm": 0.1}  # by name as well: arms stand in the order of their starts, in seconds
    write_sweep(tmp_path / "fast", rates, ablation=RNN)
    slow = write_sweep(
        tmp_path / "slow", rates, ablation=RNN, seconds=31.0,
        change=lambda run: edit(run / "summary.json", r'"train": [\d.]+', '"train": 77.5'),
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for folder, out in (("fast/sweep", "a"), (slow, "b"), (slow, "b again")):
        assert compare.main([str(folder), "--no-page", "--target", "0.3", "--out", str(tmp_path / out)]) == 0
    a, b, again = ((tmp_path / out / "comparison.json").read_bytes() for out in ("a", "b", "b again"))
    assert a == b == again
    a, b, again = ((tmp_path / out / "timing.json").read_bytes() for out in ("a", "b", "b again"))
    assert a != b == again
    times = json.loads(b)
    assert {row["arm"]: row["train_seconds"] for row in times["arms"]} == {"rnn=lstm": 77.5, "rnn=gru": 77.5}
    assert {one["seconds"] for one in times["reached"] if one["arm"] == "rnn=lstm"} == {124.0}


def test_options(sweep: Path, tmp_path: Path) -> None:
    options = ["--baseline", "gru", "--metric", "cer", "--target", "0.2", "--out", str(tmp_path / "out"), "--no-page"]
    assert compare.main([str(sweep), *options]) == 0
    told = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert (told["baseline"], told["metric"], {one["target"] for one in told["reached"]}) == ("rnn=gru", "cer", {0.2})
    assert not (sweep / "comparison").exists()


def test_figures_are_chosen_by_name(sweep: Path, capsys: Capture) -> None:
    assert compare.main([str(sweep), "--no-page", "--figures", "differences,looks"]) == 0
    assert "not drawn, because the runs lack the data: looks\n" in capsys.readouterr().out
    drawn = {path.name for path in (sweep / "comparison").iterdir() if path.suffix in (".png", ".svg", ".pdf")}
    assert drawn == {f"differences.{kind}" for kind in ("png", "svg", "pdf")}
    (sweep / "looks.json").unlink()
    assert compare.main([str(sweep), "--figures", "differencs"]) == 2
    expected = "error: figures=differencs: expected differences (the nearest), or one of "
    assert capsys.readouterr().err.startswith(expected)
    assert not (sweep / "looks.json").exists(), "a command that is refused is no look"


def test_a_confound_is_refused_with_exit_code_2_and_overruled_by_allow(
    sweep: Path, tmp_path: Path, capsys: Capture
) -> None:
    write_run(tmp_path / "outputs", "rnn=rnn", "batch.size=4", ablation=RNN)
    assert compare.main([str(sweep), "--no-page"]) == 2
    out, err = capsys.readouterr()
    assert "\n  batch.size: " in err
    assert "--allow KEY" in err
    assert out == ""
    assert compare.main([str(sweep), "--no-page", "--allow", "batch.size"]) == 0
    assert "the arms also differ in batch.size" in (sweep / "comparison" / "table.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent"], "absent: there is no such folder"),
        ([], "no folder given"),
        (["outputs/sweep", "--set", "dev"], "set=dev: expected test"),
        (["wandb=entity/project"], "expected wandb=entity/project/group"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    arguments: list[str], said: str, sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compare.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def run_python(script: Path, *arguments: Any, folder: Path, threads: int = 2) -> subprocess.CompletedProcess[str]:
    return python([script, *arguments], clean_environment(folder, folder, OMP_NUM_THREADS=str(threads)), folder)


def train(corpus: Path, outputs: Path, source: Path = REPOSITORY) -> Path:
    """Train one run; returns its folder."""
    small = ["width=8", "layers=1", "max_epochs=2", "gpus=0", "logger=csv", "progress=false", f"outputs={outputs}"]
    expect(0, run_python(source / "src" / "train.py", *tiny_overrides(corpus), *small, folder=outputs.parent))
    (folder,) = run_folders(outputs)
    return folder


def verdict_of(run: Path, attempt: str = "1") -> dict[str, Any]:
    """The content of reproduction.json."""
    home = run.parents[1] / "reproductions" / run.parent.name / run.name / attempt
    content: dict[str, Any] = json.loads((home / "reproduction.json").read_text())
    return content


@pytest.fixture(scope="module")
def original(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tiny_corpus, tmp_path_factory.mktemp("reproduce") / "outputs")


@pytest.fixture
def copied(original: Path, tmp_path: Path) -> Path:
    """The run in a place of its own, as when a colleague sends it."""
    return Path(shutil.copytree(original, tmp_path / "outputs" / "single" / original.name))


@pytest.mark.slow
def test_an_untouched_run_matches_whatever_the_threads_of_today(copied: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    done = expect(0, run_python(REPOSITORY / "src" / "reproduce.py", copied, folder=tmp_path, threads=1))
    assert "\nmatch: the losses of all 6 steps, metrics, hypotheses of 8 utterances and weights" in done.stdout
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before, "it is only read"
    verdict = verdict_of(copied)
    assert (verdict["verdict"], verdict["differences"], verdict["weights"][0]) == ("match", [], verdict["weights"][1])
    assert Path(verdict["reproduction"]).name == copied.name, "the same content has the same identity"


def git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", "-C", str(folder), *author, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def change(path: Path, line: str, other: str) -> None:
    text = path.read_text()
    assert text.count(line) == 1
    path.write_text(text.replace(line, other))


@pytest.mark.slow
def test_checkout_runs_the_recorded_commit_of_a_repository_that_has_changed(copied: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout" / "repository"
    for name in ("src", "conf"):
        shutil.copytree(REPOSITORY / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    git(checkout, "init", "--quiet")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "all")
    recorded = json.loads((copied / "environment.json").read_text())
    code = {"commit": git(checkout, "rev-parse", "HEAD").strip(), "dirty_diff": ""}
    (copied / "environment.json").write_text(json.dumps(recorded | {"code": recorded["code"] | code}))
    model = checkout / "src" / "asr_ablations" / "components" / "model" / "ds2.py"
    change(model, "return self.output(x), lengths", "return 1.01 * self.output(x), lengths")
    expect(0, run_python(checkout / "src" / "reproduce.py", copied, "--checkout", folder=tmp_path))
    verdict = verdict_of(copied, "1-checkout")
    assert (verdict["verdict"], verdict["differences"]) == ("match", [])
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_a_new_run_differs_in_the_seed_alone(copied: Path, tmp_path: Path) -> None:
    done = expect(0, run_python(REPOSITORY / "src" / "reproduce.py", copied, "seed=7", folder=tmp_path))
    assert "the new run differs in seed: 7 instead of 0" in done.stdout
    (new,) = [folder for folder in run_folders(tmp_path / "outputs") if folder != copied]
    assert new.parent == copied.parent
    configs = [yaml.safe_load((folder / "config.yaml").read_text()) for folder in (copied, new)]
    moved = {"outputs", "threads"}  # its folder, and the original's number of threads
    assert {key for key in configs[0] if configs[0][key] != configs[1][key]} - moved == {"seed", "overrides"}
    assert (new / "overrides").read_text() == (copied / "overrides").read_text() + "seed=7\n"
    results = [(folder / "losses.csv").read_text() for folder in (copied, new)]
    assert results[0] != results[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        (lambda run: None, ["seed=1,2"], "seed=1,2: expected one value"),
        (lambda run: None, ["other-run"], "other-run: expected KEY=VALUE"),
        (lambda run: (run / "status.json").write_text('{"status": "failed", "reason": "tired"}'), [], "failed: tired"),
        (lambda run: (run / "status.json").unlink(), [], "not a run folder"),
        (lambda run: change(run / "config.yaml", "asr_ablations.components.rnn.lstm.LSTM", "os.system"), [],
         "os.system: refused"),
        (lambda run: change(run / "config.yaml", "max_epochs: 2\n", ""), [], "it lacks max_epochs"),
        (lambda run: change(run / "config.yaml", "max_epochs: 2\n", "max_epochs: 3\n"), ["seed=1"],
         "(max_epochs: 3 then, 2 now)"),
        (lambda run: edit(run / "environment.json", '"commit": .*', '"commit": "--help",'), ["--checkout"],
         "names no commit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(
    prepare: Callable[[Path], object], arguments: list[str], message: str, copied: Path, tmp_path: Path, capsys: Capture
) -> None:
    prepare(copied)
    assert reproduce.main([str(copied), *arguments]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert not (tmp_path / "outputs" / "reproductions").exists()
