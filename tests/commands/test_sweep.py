"""python src/train.py -m: the command that users copy."""

import json

import pytest

from asr_ablations.runs.records import load
from asr_ablations.runs.sweep_history import declared, launches
from tests.helpers.command import SHRUNKEN, run, run_folders
from tests.helpers.dead_server import dead_server
from tests.helpers.processes import wait_for
from tests.helpers.wandb_file import read_run

NOTICE = "precision=16 on a CPU is bfloat16"


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def sweep(corpora, temporary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    command = ["src/train.py", "-m", "rnn=lstm,gru", "precision=16", *SHRUNKEN]
    done = run(command, corpora, folder, WANDB_MODE="", TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr
    return done, run_folders(folder)


def test_two_arms_finish_each_in_its_own_process(sweep):
    _, folders = sweep
    status = [json.loads((folder / "status.json").read_text()) for folder in folders]
    assert [content["status"] for content in status] == ["done", "done"]
    assert status[0]["pid"] != status[1]["pid"]
    assert folders[0].parent == folders[1].parent


def test_nothing_is_left_in_the_temporary_folder(sweep, temporary):
    """The server that arms are forked from ends a moment after the command, and takes W&B's folder with it."""
    wait_for(lambda: all("torchinductor" in path.name for path in temporary.iterdir()), 120)


def test_the_arms_differ_in_the_rnn_alone(sweep):
    import yaml

    _, folders = sweep
    configs = [yaml.safe_load((folder / "config.yaml").read_text()) for folder in folders]
    differing = {key for key in configs[0] if configs[0][key] != configs[1][key]}
    assert differing == {"rnn", "overrides"}


def test_a_table_of_both_arms_is_printed_at_the_end_and_16_is_explained_once_per_arm(sweep):
    done, folders = sweep
    table = done.stdout[done.stdout.rindex("arms") :]
    assert all(part in table for part in ("rnn=lstm", "rnn=gru", "done", "WER"))
    assert f"compare them  python src/compare.py {folders[0].parent}\n" in table
    assert [(folder / "output.log").read_text().count(NOTICE) for folder in folders] == [1, 1]


def test_wandb_holds_both_runs_in_one_group_offline(sweep):
    _, folders = sweep
    runs = [read_run(path) for folder in folders for path in folder.rglob("*.wandb")]
    assert len(runs) == 2
    assert {run_["group"] for run_ in runs} == {folders[0].parent.name}
    assert {run_["config"]["identity"] for run_ in runs} == {folder.name[-8:] for folder in folders}
    assert len({run_["id"] for run_ in runs}) == 2
    assert {run_["job_type"] for run_ in runs} == {"train"}
    assert {tag for run_ in runs for tag in run_["tags"] if tag.startswith("rnn=")} == {"rnn=lstm", "rnn=gru"}
    assert all(run_["metrics"]["validation/dev-clean/wer"] == ("trainer/global_step", "min") for run_ in runs)
    assert f"wandb sync {folders[0].parent}/*/wandb/offline-run-*" in sweep[0].stdout
    assert [run_["exit_code"] for run_ in runs] == [0, 0]
    assert {run_["config"]["rnn"] for run_ in runs} == {"lstm", "gru"}
    for run_ in runs:
        assert run_["config"]["precision"] == 16
        assert run_["config"]["model.width"] == 16
        assert not {"outputs", "logger", "threads", "workers"} & {key.split(".")[0] for key in run_["config"]}
        keys = {key for row in run_["history"] for key in row}
        assert {"train/loss_epoch", "validation/dev-clean/wer", "final/test-clean/wer", "examples/path"} <= keys
        losses = [row["validation/dev-clean/loss"] for row in run_["history"] if "validation/dev-clean/loss" in row]
        assert len(losses) == 2


def test_wandb_history_equals_the_record(sweep):
    _, folders = sweep
    for folder in folders:
        (path,) = folder.rglob("*.wandb")
        found = [row["final/test-clean/wer"] for row in read_run(path)["history"] if "final/test-clean/wer" in row]
        assert found == [json.loads((folder / "summary.json").read_text())["sets"]["test-clean"]["wer"]]


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
    done = run(["src/train.py", "-m", *SHRUNKEN, *overrides], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    status = {}
    for folder in run_folders(tmp_path):
        (path,) = folder.rglob("*.wandb")
        name = json.loads((folder / "status.json").read_text())["status"]
        run_ = read_run(path)
        status[run_["config"]["optimizer.lr"]] = (name, run_["exit_code"])
    assert status == {1e30: ("failed", 1), 1e-3: ("done", 0)}
    assert "1 of 2 arms diverged, which is a result: force=true runs it again" in done.stdout
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


def test_a_sweep_file_gives_its_arms_and_its_name(corpora, tmp_path):
    options = [*SHRUNKEN, "max_epochs=1", "logger=csv", "seed=0,1", "rnn=rnn"]
    done = run(["src/train.py", "-m", "-cd", "sweeps", "-cn", "rnn_type", *options], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    folders = run_folders(tmp_path)
    assert [folder.parent.name for folder in folders] == ["rnn_type", "rnn_type"]
    results = [(folder / "utterances.csv").read_text() for folder in folders]
    assert results[0] != results[1], "the seed changed nothing"


def test_a_sweep_file_without_its_folder_is_answered_with_the_folder(corpora, tmp_path):
    done = run(["src/train.py", "-m", "-cn", "rnn_type"], corpora, tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: -cn rnn_type: it stands in another folder than conf/: -cd sweeps -cn rnn_type\n"
