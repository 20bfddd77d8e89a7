"""python src/compare.py: what it writes, refuses and says."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asr_ablations.comparison.comparison import compare, compare_runs
from asr_ablations.comparison.design import Options
from asr_ablations.comparison.wandb_runs import from_runs
from tests.helpers.command import SHRUNKEN, clean_environment, run
from tests.helpers.interpreter import SOURCE, python
from tests.helpers.run_folders import write_run, write_sweep
from tests.helpers.wandb_file import read_run

pytestmark = pytest.mark.slow

RNN = {"factor": "rnn", "question": "Is a GRU as good?", "baseline": "lstm"}


def compare_command(*arguments, folder, **environment):
    return python([SOURCE / "compare.py", *arguments], clean_environment(folder, folder, **environment), folder)


@pytest.fixture
def sweep(tmp_path):
    return write_sweep(tmp_path / "outputs", {"rnn=lstm": 0.1, "rnn=gru": 0.4}, seeds=3, ablation=RNN)


def test_it_prints_and_writes(sweep, tmp_path):
    done = compare_command(sweep, "--no-page", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout[: done.stdout.index("wrote")].splitlines()
    assert lines[0] == "Is a GRU as good?"
    assert lines[1].startswith("gru is worse than lstm on test: +")
    assert max(map(len, lines)) <= 80
    assert "matched pairs" not in done.stdout
    names = {path.name for path in (sweep / "comparison").iterdir()}
    assert names == {"table.md", "table.csv", "table.tex", "comparison.json"}
    assert compare_command(sweep, "--no-page", folder=tmp_path).returncode == 0, "its own folder is no run"


def test_full_prints_every_table(sweep, tmp_path):
    done = compare_command(sweep, "--no-page", "--full", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(
        part in done.stdout for part in ("Differences to lstm", "matched pairs p", "to find a true difference of")
    )


def test_the_set_that_decides_can_be_chosen(sweep, tmp_path):
    done = compare_command(sweep, "--no-page", "--set", "dev", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "error: set=dev: expected test"


def test_options(sweep, tmp_path):
    options = ["--baseline", "gru", "--metric", "cer", "--target", "0.2", "--out", tmp_path / "out", "--no-page"]
    done = compare_command(sweep, *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert (told["baseline"], told["metric"], {one["target"] for one in told["reached"]}) == ("gru", "cer", {0.2})
    assert not (sweep / "comparison").exists()


def test_a_confound_is_refused_with_exit_code_2_and_overruled_by_allow(sweep, tmp_path):
    write_run(tmp_path / "outputs", "rnn=rnn", "batch.size=4", ablation=RNN)
    done = compare_command(sweep, "--no-page", folder=tmp_path)
    assert done.returncode == 2
    assert "\n  batch.size: " in done.stderr
    assert "--allow KEY" in done.stderr
    assert done.stdout == ""
    done = compare_command(sweep, "--no-page", "--allow", "batch.size", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "by --allow the arms also differ in batch.size" in (sweep / "comparison" / "table.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent"], "absent: there is no such folder"),
        ([], "no folder given"),
        (["outputs/sweep", "--baseline", "mine"], "baseline=mine: expected"),
        (["wandb=entity/project"], "expected wandb=entity/project/group"),
        (["--results", "absent"], "absent: there is no such folder"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, said, sweep, tmp_path):
    done = compare_command(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_shows_examples_and_options(tmp_path):
    done = compare_command("--help", folder=tmp_path)
    assert done.returncode == 0
    assert all(part in done.stdout for part in ("outputs/rnn_type", "--baseline", "--allow", "--results", "--target"))


def test_results_are_generated(sweep, tmp_path):
    done = compare_command("--results", "--out", tmp_path / "sweeps", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "sweeps" / "RESULTS.md").read_text()
    assert "Is a GRU as good?" in text


def test_it_imports_no_torch(sweep, tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import compare; "
        f"compare.main([{str(sweep)!r}, '--no-page', '--out', {str(tmp_path / 'out')!r}]); "
        "sys.exit(str(sorted({'torch', 'pytorch_lightning', 'wandb'} & set(sys.modules)) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_200_runs_are_compared(tmp_path):
    rates = {f"dropout={rate}": 0.2 for rate in (0.0, 0.1, 0.2, 0.3)}
    sweep = write_sweep(tmp_path / "outputs", rates, seeds=50, curve=[1 / n for n in range(2, 22)])
    done = compare_command(sweep, "--no-page", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    with (sweep / "comparison" / "table.csv").open(newline="") as file:
        counted = {row["arm"]: int(row["n"]) for row in csv.DictReader(file)}
    assert counted == {f"dropout={rate}": 50 for rate in (0.0, 0.1, 0.2, 0.3)}


@pytest.fixture(scope="module")
def real_sweep(corpora, tmp_path_factory):
    """Two arms with two seeds, trained in miniature and logged to W&B offline."""
    folder = tmp_path_factory.mktemp("real")
    done = run(
        ["src/train.py", "-m", "-cd", "sweeps", "-cn", "rnn_type", "rnn=lstm,gru", "seed=0,1", *SHRUNKEN],
        corpora,
        folder,
    )
    assert done.returncode == 0, done.stderr
    return folder / "rnn_type"


def test_a_real_sweep_is_compared(real_sweep, tmp_path):
    done = compare_command(real_sweep, "--no-page", "--out", tmp_path, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "comparison.json").read_text())
    assert (told["baseline"], told["factor"], told["sets"]) == ("lstm", ["rnn"], ["test-clean", "test-other"])
    assert [arm["name"] for arm in told["arms"]] == ["lstm", "gru"]
    assert [(row["set"], row["primary"]) for row in told["differences"]] == [
        ("test-clean", True),
        ("test-other", False),
    ]
    assert len(told["verdicts"]) == 1


class OfflineRun:
    """wandb.apis.public.Run as far as it is read, over a .wandb file of the project's own."""

    def __init__(self, path: Path) -> None:
        read = read_run(path)
        self.id, self.name, self.config = read["id"], read["name"], read["config"]
        self.state = "finished" if read["exit_code"] == 0 else "crashed"
        self.job_type = read["job_type"]
        self.scan_history = lambda: read["history"]
        self.logged_artifacts = lambda: [self]
        self.type, self.folder = "utterances", path.parents[2]

    def download(self, root: str) -> None:
        """As logger.artifacts=[utterances] sends it."""
        shutil.copy(self.folder / "utterances.csv", root)


def test_wandb_mirrors_the_record(real_sweep):
    mirrored = from_runs([OfflineRun(path) for path in real_sweep.rglob("run-*.wandb")])
    local = compare([real_sweep], Options())
    remote = compare_runs(mirrored, Options(), "rnn_type")
    assert remote.factor == local.factor
    rates = [{(row["arm"], row["set"]): row["wer"] for row in found.rows} for found in (local, remote)]
    assert rates[0] == pytest.approx(rates[1])
    asked = [[(one.arm, one.set) for one in found.contrasts] for found in (local, remote)]
    assert asked[0] == asked[1]
    pairs = [[value for one in kept.contrasts for value in (one.difference, one.p_pairs)] for kept in (local, remote)]
    assert pairs[0] == pytest.approx(pairs[1], nan_ok=True)
    assert all(run.utterances for run in mirrored.runs)


def test_the_comparison_is_logged_to_wandb(sweep, tmp_path):
    done = compare_command(sweep, "--wandb-log", "mine", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sum("W&B report: not made, since W&B is offline" in line for line in done.stdout.splitlines()) == 1
    (path,) = (sweep / "comparison").rglob("*.wandb")
    told = read_run(path)
    keys = {key for row in told["history"] for key in row}
    assert told["group"] == "sweep"
    assert {f"comparison/{name}/path" for name in ("table", "differences", "verdicts", "page")} <= keys
