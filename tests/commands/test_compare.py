"""src/compare.py and src/reproduce.py."""

import csv
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import soundfile
import yaml

from asr_ablations.comparison.folders import compare_folders
from asr_ablations.comparison.wandb_runs import from_runs
from asr_ablations.runs.records import CHANGED
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.comparison import compare
from asr_verdicts.design import Options
from asr_verdicts.table_columns import rate_rows
from tests.helpers import interpreter
from tests.helpers.command import SHRUNKEN, clean_environment, run, run_folders
from tests.helpers.interpreter import SOURCE, expect, python
from tests.helpers.run_folders import edit, write_run, write_sweep
from tests.helpers.support import tiny_overrides
from tests.helpers.wandb_file import read_run

pytestmark = pytest.mark.slow

RNN = {"factor": "rnn", "question": "Is a GRU as good?", "baseline": "lstm"}


def compare_command(*arguments, folder, **environment):
    return python([SOURCE / "compare.py", *arguments], clean_environment(folder, folder, **environment), folder)


@pytest.fixture
def sweep(tmp_path):
    return write_sweep(tmp_path / "outputs", {"rnn=lstm": 0.1, "rnn=gru": 0.4}, seeds=3, ablation=RNN)


def test_it_prints_and_writes(sweep, tmp_path):
    done = expect(0, compare_command(sweep, "--no-page", folder=tmp_path))
    lines = done.stdout[: done.stdout.index("wrote")].splitlines()
    assert lines[0] == "sweep: Is a GRU as good?"
    rows = [line.split() for line in lines if line.startswith("  rnn=")]
    assert [row[0] for row in rows] == ["rnn=lstm", "rnn=gru"]
    assert rows[1][-1] == "worse"
    assert any(line.startswith("rnn=gru is worse than rnn=lstm on test: ") for line in lines)
    assert max(map(len, lines)) <= 80
    assert "matched pairs" not in done.stdout
    names = {path.name for path in (sweep / "comparison").iterdir()}
    assert names == {
        "table.md",
        "table.csv",
        "table.tex",
        "appendix.tex",
        "methods.txt",
        "comparison.json",
        "timing.json",
    }
    assert compare_command(sweep, "--no-page", folder=tmp_path).returncode == 0, "its own folder is no run"


def test_equal_results_give_equal_bytes_whatever_the_times_and_paths(tmp_path):
    """The same sweep on a fast and on a slow machine, compared by a relative and by an absolute path."""
    rates = {"rnn=gru": 0.4, "rnn=lstm": 0.1}  # by name as well: arms stand in the order of their starts, in seconds
    write_sweep(tmp_path / "fast", rates, ablation=RNN)
    slow = write_sweep(
        tmp_path / "slow", rates, ablation=RNN, seconds=31.0,
        change=lambda run: edit(run / "summary.json", r'"train": [\d.]+', '"train": 77.5'),
    )  # fmt: skip
    for sweep, out in (("fast/sweep", "a"), (slow, "b"), (slow, "b again")):
        expect(0, compare_command(sweep, "--no-page", "--target", "0.3", "--out", tmp_path / out, folder=tmp_path))
    a, b, again = ((tmp_path / out / "comparison.json").read_bytes() for out in ("a", "b", "b again"))
    assert a == b == again
    a, b, again = ((tmp_path / out / "timing.json").read_bytes() for out in ("a", "b", "b again"))
    assert a != b == again
    times = json.loads(b)
    assert {row["arm"]: row["train_seconds"] for row in times["arms"]} == {"rnn=lstm": 77.5, "rnn=gru": 77.5}
    assert {one["seconds"] for one in times["reached"] if one["arm"] == "rnn=lstm"} == {124.0}


def test_full_prints_every_table(sweep, tmp_path):
    done = expect(0, compare_command(sweep, "--no-page", "--full", folder=tmp_path))
    assert all(
        part in done.stdout
        for part in ("Differences to rnn=lstm", "matched pairs p", "Evidence", "to detect a true difference of")
    )


def test_the_set_that_decides_can_be_chosen(sweep, tmp_path):
    done = expect(2, compare_command(sweep, "--no-page", "--set", "dev", folder=tmp_path))
    assert done.stderr.strip() == "error: set=dev: expected test"


def test_options(sweep, tmp_path):
    options = ["--baseline", "gru", "--metric", "cer", "--target", "0.2", "--out", tmp_path / "out", "--no-page"]
    expect(0, compare_command(sweep, *options, folder=tmp_path))
    told = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert (told["baseline"], told["metric"], {one["target"] for one in told["reached"]}) == ("rnn=gru", "cer", {0.2})
    assert not (sweep / "comparison").exists()


def test_figures_are_chosen_by_name(sweep, tmp_path):
    done = expect(0, compare_command(sweep, "--no-page", "--figures", "differences,looks", folder=tmp_path))
    assert "not drawn, because the runs lack the data: looks\n" in done.stdout
    drawn = {path.name for path in (sweep / "comparison").iterdir()} - {"table.md", "table.csv", "comparison.json"}
    assert drawn == {
        "table.tex",
        "appendix.tex",
        "methods.txt",
        "timing.json",
        *(f"differences.{kind}" for kind in ("png", "svg", "pdf")),
    }
    (sweep / "looks.json").unlink()
    done = expect(2, compare_command(sweep, "--figures", "differencs", folder=tmp_path))
    assert done.stderr.startswith("error: figures=differencs: expected differences (the nearest), or one of ")
    assert not (sweep / "looks.json").exists()  # a command that is refused is no look


def test_a_confound_is_refused_with_exit_code_2_and_overruled_by_allow(sweep, tmp_path):
    write_run(tmp_path / "outputs", "rnn=rnn", "batch.size=4", ablation=RNN)
    done = expect(2, compare_command(sweep, "--no-page", folder=tmp_path))
    assert "\n  batch.size: " in done.stderr
    assert "--allow KEY" in done.stderr
    assert done.stdout == ""
    expect(0, compare_command(sweep, "--no-page", "--allow", "batch.size", folder=tmp_path))
    assert "the arms also differ in batch.size" in (sweep / "comparison" / "table.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent"], "absent: there is no such folder"),
        ([], "no folder given"),
        (["outputs/sweep", "--baseline", "mine"], "baseline=mine: expected"),
        (["wandb=entity/project"], "expected wandb=entity/project/group"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, said, sweep, tmp_path):
    done = expect(2, compare_command(*arguments, folder=tmp_path))
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_shows_examples_and_options(tmp_path):
    done = expect(0, compare_command("--help", folder=tmp_path))
    assert all(part in done.stdout for part in ("outputs/rnn_type", "--baseline", "--allow", "--target"))


def test_it_imports_no_torch(sweep, tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import compare; "
        f"compare.main([{str(sweep)!r}, '--no-page', '--out', {str(tmp_path / 'out')!r}]); "
        "sys.exit(str(sorted({'torch', 'pytorch_lightning', 'wandb'} & set(sys.modules)) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_100_runs_are_compared(tmp_path):
    rates = {f"dropout={rate}": 0.2 for rate in (0.0, 0.1, 0.2, 0.3)}
    sweep = write_sweep(tmp_path / "outputs", rates, seeds=25, curve=[1 / n for n in range(2, 22)])
    expect(0, compare_command(sweep, "--no-page", folder=tmp_path))
    with (sweep / "comparison" / "table.csv").open(newline="") as file:
        counted = {row["arm"]: int(row["n"]) for row in csv.DictReader(file)}
    assert counted == {f"dropout={rate}": 25 for rate in (0.0, 0.1, 0.2, 0.3)}


@pytest.fixture(scope="module")
def real_sweep(corpora, tmp_path_factory):
    """Two arms with two seeds, trained in miniature and logged to W&B offline."""
    folder = tmp_path_factory.mktemp("real")
    expect(
        0,
        run(
            ["src/train.py", "-m", "-cd", "sweeps", "-cn", "rnn_type", "rnn=lstm,gru", "seed=0,1", *SHRUNKEN],
            corpora,
            folder,
        ),
    )
    return folder / "rnn_type"


def test_a_real_sweep_is_compared(real_sweep, tmp_path):
    expect(0, compare_command(real_sweep, "--no-page", "--out", tmp_path, folder=tmp_path))
    told = json.loads((tmp_path / "comparison.json").read_text())
    assert (told["baseline"], told["factor"], told["sets"]) == ("rnn=lstm", ["rnn"], ["test-clean", "test-other"])
    assert [arm["name"] for arm in told["arms"]] == ["rnn=lstm", "rnn=gru"]
    assert [(row["set"], row["primary"]) for row in told["differences"]] == [
        ("test-clean", True),
        ("test-other", False),
    ]
    assert len(told["verdicts"]) == 1


def test_a_sweep_file_that_was_mended_after_the_training_counts_as_it_is_now(real_sweep, corpora, tmp_path):
    """As an override, which is the file's line as well."""
    shutil.copytree(real_sweep, tmp_path / "rnn_type", symlinks=True)
    command = ["src/train.py", "-m", "-cd", "sweeps", "-cn", "rnn_type", "rnn=lstm,gru", "seed=0,1", *SHRUNKEN]
    done = expect(0, run([*command, "ablation.baseline=gru"], corpora, tmp_path))
    assert "4 of 4 arms were already done" in done.stdout
    expect(0, compare_command(tmp_path / "rnn_type", "--no-page", "--out", tmp_path / "out", folder=tmp_path))
    compared = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert compared["baseline"] == "rnn=gru"
    assert CHANGED.format("ablation.baseline", "rnn_type") in compared["warnings"]


class OfflineRun:
    """wandb.apis.public.Run as far as it is read, over a .wandb file of the project's own."""

    def __init__(self, path: Path) -> None:
        read = read_run(path)
        self.id, self.name, self.config, self.summary = read["id"], read["name"], read["config"], read["summary"]
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
    local = compare_folders([real_sweep], Options())
    remote = compare(mirrored, Options(), "rnn_type")
    assert remote.design.layout.factor == local.design.layout.factor
    rates = [{(row["arm"], row["set"]): row["wer"] for row in rate_rows(found)} for found in (local, remote)]
    assert rates[0] == pytest.approx(rates[1])
    asked = [[(one.arm, one.set) for one in found.verdicts] for found in (local, remote)]
    assert asked[0] == asked[1]
    pairs = [[value for one in kept.verdicts for value in (one.difference, one.p_pairs)] for kept in (local, remote)]
    assert pairs[0] == pytest.approx(pairs[1], nan_ok=True)
    assert all(run.utterances for run in mirrored.runs)


def test_the_comparison_is_logged_to_wandb(sweep, tmp_path):
    done = expect(0, compare_command(sweep, "--wandb-log", "mine", folder=tmp_path))
    assert f"W&B later: wandb sync {sweep}/comparison/wandb/offline-run-*" in done.stdout.splitlines()
    (path,) = (sweep / "comparison").rglob("*.wandb")
    told = read_run(path)
    keys = {key for row in told["history"] for key in row}
    assert told["group"] == "sweep"
    assert {f"comparison/{name}/path" for name in ("error-rates", "differences", "verdicts", "page")} <= keys


LSTM = "asr_ablations.components.rnn.lstm.LSTM"
SMALL = ["width=8", "layers=1", "max_epochs=2", "gpus=0", "logger=csv", "progress=false"]


def run_python(script: Path, *arguments: Any, folder: Path, threads: int = 2) -> subprocess.CompletedProcess[str]:
    return interpreter.python(
        [script, *arguments], clean_environment(folder, folder, OMP_NUM_THREADS=str(threads)), folder
    )


def train(corpus: Path, outputs: Path, *overrides: str, source: Path = REPOSITORY) -> Path:
    """Train one run; returns its folder."""
    arguments = [*tiny_overrides(corpus), *SMALL, *overrides, f"outputs={outputs}"]
    expect(0, run_python(source / "src" / "train.py", *arguments, folder=outputs.parent))
    (folder,) = run_folders(outputs)
    return folder


def reproduce(*arguments: Any, folder: Path, source: Path = REPOSITORY, **more: Any) -> subprocess.CompletedProcess:
    return run_python(source / "src" / "reproduce.py", *arguments, folder=folder, **more)


def verdict_of(run: Path, attempt: str = "1") -> dict[str, Any]:
    """The content of reproduction.json."""
    home = run.parents[1] / "reproductions" / run.parent.name / run.name / attempt
    content: dict[str, Any] = json.loads((home / "reproduction.json").read_text())
    return content


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def original(tiny_corpus, tmp_path_factory):
    return train(tiny_corpus, tmp_path_factory.mktemp("reproduce") / "outputs")


@pytest.fixture
def copied(original, tmp_path):
    """The run in a place of its own, as when a colleague sends it."""
    folder = tmp_path / "outputs" / "single" / original.name
    shutil.copytree(original, folder)
    return folder


def test_an_untouched_run_matches_whatever_the_threads_of_today(copied, tmp_path):
    before = contents(copied)
    done = expect(0, reproduce(copied, folder=tmp_path, threads=1))
    assert "\nmatch: the losses of all 6 steps, metrics, hypotheses of 8 utterances and weights" in done.stdout
    assert contents(copied) == before, "the original is only read"
    verdict = verdict_of(copied)
    assert (verdict["verdict"], verdict["differences"], verdict["weights"][0]) == ("match", [], verdict["weights"][1])
    assert Path(verdict["reproduction"]).name == copied.name, "the same content has the same identity"
    expect(0, reproduce(copied, "--outputs", tmp_path / "elsewhere", folder=tmp_path))
    assert len(run_folders(tmp_path / "elsewhere")) == 1


def test_a_finished_reproduction_is_kept(copied, tmp_path):
    assert [reproduce(copied, folder=tmp_path).returncode for _ in range(2)] == [0, 0]
    home = tmp_path / "outputs" / "reproductions" / "single" / copied.name
    assert sorted(path.name for path in home.iterdir()) == ["1", "2"]


def test_one_changed_weight_decay_differs(copied, tmp_path):
    path = copied / "config.yaml"
    path.write_text(path.read_text().replace("weight_decay: 0.01", "weight_decay: 0.5"))
    done = expect(1, reproduce(copied, folder=tmp_path))
    verdict = verdict_of(copied)
    cause = {"kind": "config", "what": "optimizer.weight_decay", "original": 0.01, "reproduction": 0.5}
    assert (verdict["verdict"], verdict["differences"]) == ("differs", [cause])
    assert verdict["first_difference"]["step"] == 2, "the first loss is of the same weights still"
    assert "config: optimizer.weight_decay: 0.01 then, 0.5 now" in done.stdout


def changed_audio(tiny_corpus: Path, tmp_path: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Reproduce a run after the samples of one training file were reversed, which keeps its length."""
    corpus = tmp_path / "corpus"
    shutil.copytree(tiny_corpus, corpus)
    run = train(corpus, tmp_path / "outputs")
    path = next(iter(sorted(corpus.glob("train/*/*/*.flac"))))
    samples, rate = soundfile.read(path, dtype="int16")
    soundfile.write(path, samples[::-1], rate, subtype="PCM_16")
    return reproduce(run, folder=tmp_path), verdict_of(run)


def test_one_changed_audio_file_differs_and_its_set_is_named(tiny_corpus, tmp_path):
    done, verdict = changed_audio(tiny_corpus, tmp_path)
    assert done.returncode == 1
    assert [(cause["kind"], cause["what"]) for cause in verdict["differences"]] == [("data", "train.sha256")]
    assert verdict["why"].startswith("the data is not the same; losses first differ at step ")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A git checkout of this source."""
    folder = tmp_path_factory.mktemp("checkout") / "repository"
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("src", "conf"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignore)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


def git(folder: Path, *arguments: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", "-C", str(folder), *author, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def change(path: Path, line: str, other: str) -> None:
    text = path.read_text()
    assert text.count(line) == 1
    path.write_text(text.replace(line, other))


def test_one_changed_line_of_the_model_differs_and_checkout_matches(checkout, tiny_corpus, tmp_path):
    """The original ran on a commit with a change of its own; the line was changed after it."""
    model = checkout / "src" / "asr_ablations" / "components" / "model" / "ds2.py"
    (model.parent / "ds2.py").write_text(model.read_text() + "\n# not committed\n")
    run = train(tiny_corpus, tmp_path / "outputs", source=checkout)
    change(model, "return self.output(x), lengths", "return 1.01 * self.output(x), lengths")
    done = expect(1, reproduce(run, folder=tmp_path, source=checkout))
    verdict = verdict_of(run)
    assert [(cause["kind"], cause["what"]) for cause in verdict["differences"]] == [("code", "components/model/ds2.py")]
    assert verdict["first_difference"]["step"] == 1
    assert "code: components/model/ds2.py has changed" in done.stdout

    expect(0, reproduce(run, "--checkout", folder=tmp_path, source=checkout))
    assert (verdict_of(run, "1-checkout")["verdict"], verdict_of(run, "1-checkout")["differences"]) == ("match", [])
    assert len(git(checkout, "worktree", "list").splitlines()) == 1
    git(checkout, "checkout", "--quiet", ".")


def test_a_new_run_differs_in_the_seed_alone(copied, tmp_path):
    done = expect(0, reproduce(copied, "seed=7", folder=tmp_path))
    assert "the new run differs in seed: 7 instead of 0" in done.stdout
    (new,) = [folder for folder in run_folders(tmp_path / "outputs") if folder != copied]
    assert new.parent == copied.parent
    configs = [yaml.safe_load((folder / "config.yaml").read_text()) for folder in (copied, new)]
    moved = {"outputs", "threads"}  # its folder, and the original's number of threads
    assert {key for key in configs[0] if configs[0][key] != configs[1][key]} - moved == {"seed", "overrides"}
    assert (new / "overrides").read_text() == (copied / "overrides").read_text() + "seed=7\n"
    results = [(folder / "losses.csv").read_text() for folder in (copied, new)]
    assert results[0] != results[1]


def wrong(run: Path, what: str, content: Any) -> None:
    """Change one key of environment.json's `code`."""
    path = run / "environment.json"
    environment = json.loads(path.read_text())
    environment["code"][what] = content
    path.write_text(json.dumps(environment))


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        (lambda run: None, ["seed=1,2"], "seed=1,2: expected one value"),
        (lambda run: None, ["rnn=nothing_else"], "rnn=nothing_else: expected associative_lstm, gru, lstm"),
        (lambda run: None, ["seed=-1"], "seed=-1: expected a whole number"),
        (lambda run: None, ["other-run"], "other-run: expected KEY=VALUE"),
        (lambda run: (run / "status.json").write_text('{"status": "failed", "reason": "tired"}'), [], "failed: tired"),
        (lambda run: (run / "status.json").write_text('{"status": "pruned", "reason": "bad"}'), [], "pruned: bad"),
        (lambda run: (run / "status.json").unlink(), [], "not a run folder"),
        (lambda run: (run / "summary.json").write_text("{"), [], "summary.json: cannot be read"),
        (lambda run: change(run / "config.yaml", LSTM, "os.system"), [], "os.system: refused"),
        (lambda run: change(run / "config.yaml", "max_epochs: 2\n", ""), [], "it lacks max_epochs"),
        (lambda run: change(run / "config.yaml", "max_epochs: 2\n", "max_epochs: 3\n"), ["seed=1"],
         "(max_epochs: 3 then, 2 now)"),
        (lambda run: wrong(run, "commit", "f" * 40), ["--checkout"],
         "cannot give commit ffffffff (fatal: invalid reference"),
        (lambda run: wrong(run, "commit", "--help"), ["--checkout"], "names no commit"),
        (lambda run: wrong(run, "commit", None), ["--checkout"], "names no commit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(prepare, arguments, message, copied, tmp_path):
    prepare(copied)
    done = expect(2, reproduce(copied, *arguments, folder=tmp_path))
    (line,) = done.stderr.strip().splitlines()
    assert message in line
    assert not (tmp_path / "outputs" / "reproductions").exists()


@pytest.mark.parametrize("what", ["outside git", "a diff that does not apply"])
def test_a_checkout_that_cannot_be_is_one_line(what, checkout, copied, tmp_path):
    source = checkout
    wrong(copied, "commit", git(checkout, "rev-parse", "HEAD").strip())
    wrong(copied, "dirty_diff", "--- a/src/none.py\n+++ b/src/none.py\n@@ -1 +1 @@\n-a\n+b\n")
    if what == "outside git":
        source = tmp_path / "plain"
        shutil.copytree(checkout, source, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    done = expect(2, reproduce(copied, "--checkout", folder=tmp_path, source=source))
    (line,) = done.stderr.strip().splitlines()
    assert ("not a git repository" if what == "outside git" else "do not apply to") in line
    assert len(git(checkout, "worktree", "list").splitlines()) == 1


def test_an_interrupted_reproduction_continues(tiny_corpus, tmp_path):
    run = train(tiny_corpus, tmp_path / "outputs", "max_epochs=40")
    command = ["-u", REPOSITORY / "src" / "reproduce.py", run]
    with interpreter.start(command, clean_environment(tmp_path, tmp_path)) as process:
        next(line for line in process.lines() if line.startswith("epoch  3/40"))
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    home = tmp_path / "outputs" / "reproductions" / "single" / run.name
    assert [path.name for path in home.iterdir()] == ["1"]
    done = expect(0, reproduce(run, folder=tmp_path))
    assert "continues from epoch" in done.stdout
    assert verdict_of(run)["verdict"] == "match"
