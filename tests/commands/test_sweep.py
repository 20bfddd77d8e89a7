"""Sweeps, searches and plans by their commands, and ranks that torchrun starts."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from asr_ablations.runs.process import child_environment
from asr_ablations.runs.records import load
from asr_ablations.runs.sweep_history import declared, launches, logarithmic
from tests.helpers.command import SHORT_SPEECH, SHRUNKEN, run, run_folders
from tests.helpers.dead_server import dead_server
from tests.helpers.interpreter import expect, program
from tests.helpers.support import tiny_overrides
from tests.helpers.wandb_file import read_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sweep(corpora, tmp_path_factory):
    """One of the three is equal to another."""
    folder = tmp_path_factory.mktemp("sweep")
    command = ["src/train.py", "-m", "rnn=lstm,gru,lstm", "precision=16", "logger=csv", *SHRUNKEN]
    done = expect(0, run(command, corpora, folder))
    return done, run_folders(folder)


def test_two_arms_finish_each_in_its_own_process_and_differ_in_the_rnn_alone(sweep):
    done, folders = sweep
    assert "1 of 3 runs are equal to another run, and share its result\n" in done.stdout
    status = [json.loads((folder / "status.json").read_text()) for folder in folders]
    assert [content["status"] for content in status] == ["done", "done"]
    assert status[0]["pid"] != status[1]["pid"]
    assert folders[0].parent == folders[1].parent
    configs = [yaml.safe_load((folder / "config.yaml").read_text()) for folder in folders]
    differing = {key for key in configs[0] if configs[0][key] != configs[1][key]}
    assert differing == {"rnn", "overrides"}


def test_a_table_of_both_arms_is_printed_at_the_end_and_16_is_explained_once_per_arm(sweep):
    done, folders = sweep
    table = done.stdout[done.stdout.rindex("arms") :]
    assert all(part in table for part in ("rnn=lstm", "rnn=gru", "WER"))
    assert f"compare them  python src/compare.py {folders[0].parent}\n" in table
    logs = [(folder / "output.log").read_text() for folder in folders]
    assert [log.count("precision=16 on a CPU is bfloat16") for log in logs] == [1, 1]


def test_a_sweep_asks_a_server_of_wandb_once_that_does_not_answer(corpora, tmp_path):
    with dead_server() as server:
        server.hangs_up.set()
        login = {"WANDB_MODE": "", "WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": server.address}
        done = run(["src/train.py", "-m", "rnn=lstm,gru", *SHRUNKEN, "max_epochs=1"], corpora, tmp_path, **login)
    assert done.returncode == 0, done.stderr
    assert server.requests == ["GET"]
    folders = run_folders(tmp_path)
    printed = [done.stdout + done.stderr, *((folder / "output.log").read_text() for folder in folders)]
    assert [text.count("W&B cannot be reached") for text in printed] == [1, 0, 0]
    assert f"W&B later: wandb sync {folders[0].parent}/*/wandb/offline-run-*" in done.stdout
    assert [len(list(folder.rglob("*.wandb"))) for folder in folders] == [1, 1]


def test_an_arm_that_diverges_is_a_result_of_the_sweep(corpora, tmp_path):
    overrides = ["optimizer.lr=1e30,1e-3", "optimizer.weight_decay=1", "max_epochs=1"]
    done = expect(0, run(["src/train.py", "-m", *SHRUNKEN, *overrides], corpora, tmp_path))
    status = {}
    for folder in run_folders(tmp_path):
        (path,) = folder.rglob("*.wandb")
        name = json.loads((folder / "status.json").read_text())["status"]
        run_ = read_run(path)
        status[run_["config"]["optimizer.lr"]] = (name, run_["exit_code"])
    assert status == {1e30: ("failed", 1), 1e-3: ("done", 0)}
    assert "1 of 2 arms diverged, which is a result: force=true runs them again" in done.stdout
    records = load([run_folders(tmp_path)[0].parent])
    (diverged,) = records.diverged
    assert f"optimizer.lr=1e+30: diverged at step {diverged.diverged_at}: the loss is nan" in done.stdout
    assert diverged.config["optimizer"]["lr"] == 1e30
    assert {diverged.summary.id, records.runs[0].summary.id} == declared(diverged.folder.parent)
    again = run(["src/train.py", "-m", *SHRUNKEN, *overrides], corpora, tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert "1 of 2 arms were already done" in again.stdout
    assert "1 of 2 arms diverged" in again.stdout
    assert len(launches(diverged.folder.parent)) == 2


def test_a_launcher_that_is_none_of_hydras_is_one_line(corpora, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        f"defaults: [/config, _self_]\nhydra: {{launcher: {{_target_: os.system, command: 'touch {tmp_path}/done'}}}}\n"
    )
    done = expect(2, run(["src/train.py", "-m", "-cd", str(tmp_path), "-cn", "mine", "seed=0,1"], corpora, tmp_path))
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: hydra.")
    assert not (tmp_path / "done").exists()


def test_a_sweep_file_without_its_folder_is_answered_with_the_folder(corpora, tmp_path):
    done = expect(2, run(["src/train.py", "-m", "-cn", "rnn_type"], corpora, tmp_path))
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: -cn rnn_type: there is no such file in conf/ or in the folder of -cd; ")
    assert "nearest: -cd sweeps -cn rnn_type; " in line


def test_a_search_finds_its_best_and_the_same_command_trains_nothing(corpora, tmp_path):
    options = [*SHORT_SPEECH, "max_epochs=1", "width=choice(8,16)", "layers=1", "logger=csv"]
    options += ["hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=1"]
    arguments = ["src/train.py", "-m", "-cd", "sweeps", "-cn", "hyperparameters", *options]
    expect(0, run(arguments, corpora, tmp_path))
    folders = run_folders(tmp_path)
    rates = {f: json.loads((f / "summary.json").read_text())["best_validation_wer"] for f in folders}
    assert len(rates) == 2
    assert logarithmic(folders[0].parent) == {"optimizer.lr"}
    best_run = yaml.safe_load((folders[0].parent / "best.yaml").read_text())
    assert best_run["best_value"] == min(rates.values())
    best = [folder for folder in folders if rates[folder] == best_run["best_value"]]
    rates_of_best = [yaml.safe_load((folder / "config.yaml").read_text())["optimizer"]["lr"] for folder in best]
    assert best_run["best_params"]["optimizer.lr"] in rates_of_best
    assert 3e-4 <= best_run["best_params"]["optimizer.lr"] <= 1e-2

    before = {folder: (folder / "status.json").read_bytes() for folder in folders}
    assert run(arguments, corpora, tmp_path).returncode == 0
    assert {folder: (folder / "status.json").read_bytes() for folder in run_folders(tmp_path)} == before


def test_what_the_ranks_find_is_said_once(tiny_corpus: Path, tmp_path: Path) -> None:
    """Here both find that the alphabet lacks letters of the corpus, which the process that starts them has not read."""
    words = ["alphabet=en", "alphabet.characters=xyz", "ranks=2", "gpus=0", "logger=csv", "width=8", "layers=1"]
    done = run(["src/train.py", *tiny_overrides(tiny_corpus), *words], tmp_path, tmp_path)
    assert (done.returncode, done.stderr.count("error:")) == (2, 1), done.stderr
    assert "characters outside the alphabet" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_rank_that_is_killed_ends_the_others_with_a_line(tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(
        "import os, signal, time\n"
        "if os.environ['RANK'] == '1':\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "time.sleep(3600)\n"
    )
    module = [sys.executable, "-m", "asr_ablations.runs.torchrun", "--standalone", "--nproc-per-node=2"]
    done = program([*module, f"--log-dir={os.devnull}", str(script)], {**child_environment(), "OMP_NUM_THREADS": "1"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: rank 1 was killed by SIGKILL\n"


@pytest.mark.slow
def test_a_plan_tells_steps_time_memory_and_disk_of_what_is_still_to_run(corpora, tmp_path):
    """The arm that is done took as many steps, and its checkpoints take as much, as the one that is planned."""
    sweep = ["src/train.py", "-m", *SHRUNKEN, "logger=csv", "max_epochs=3", "sweep=s"]
    expect(0, run([*sweep, "rnn=lstm"], corpora, tmp_path))
    (folder,) = run_folders(tmp_path)
    done = expect(0, run([*sweep, "rnn=lstm,gru", "plan=true"], corpora, tmp_path))
    assert run_folders(tmp_path) == [folder]
    assert len(list((tmp_path / "s" / "arms").iterdir())) == 1
    cells = [
        [cell.strip() for cell in line.strip("│ \n").split("│")] for line in done.stdout.splitlines() if "│" in line
    ]
    found = {row[0]: row[1:] for row in cells}
    assert set(found) == {"rnn=lstm", "rnn=gru"}
    assert found["rnn=lstm"][0] == "done"
    assert "to run: 1 of 2" in done.stdout
    assert "docs/short_runs.md" in done.stdout
    (speech,) = re.findall(r"; (\S+) hours of speech;", done.stdout)
    assert float(speech) == pytest.approx(3 * 0.02, rel=0.2)  # three epochs of data.hours
    steps, time, gpu_hours, memory, disk = found["rnn=gru"]
    assert int(steps) == len((folder / "losses.csv").read_text().splitlines()) - 1
    assert re.fullmatch(r"\d+:\d\d:\d\d", time)
    assert float(gpu_hours) == 0
    assert 0.1 < float(memory) < 10
    checkpoints = sum(path.stat().st_size for path in (folder / "checkpoints").iterdir()) / 2**20
    assert float(disk) == pytest.approx(checkpoints, abs=1)
