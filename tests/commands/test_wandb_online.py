"""What W&B's client sends online, to a stand-in for its server on loopback (tests/helpers/wandb_server.py)."""

import csv
import json
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import interpreter
from tests.helpers.command import clean_environment, run_folders
from tests.helpers.interpreter import expect
from tests.helpers.processes import wait_for
from tests.helpers.wandb_server import ENTITY, StandIn, StoredRun, wandb_server

PROJECT = "asr-ablations"
SETS = ["data.train=[train]", "data.validation=[dev]", "data.test=[train,test]"]
SMALL = ["width=8", "layers=1", "batch.size=2", "cache=none", "gpus=0", "checkpoint_minutes=0"]


class Commands:
    """Commands on the corpus of tones, logged to the server; outputs: where their runs are."""

    def __init__(self, server: StandIn, corpus: Path, outputs: Path) -> None:
        self.server, self.outputs = server, outputs
        self.train = ["src/train.py", "data=librispeech", f"data.root={corpus}", *SETS, *SMALL, f"outputs={outputs}"]
        self.long = [*self.train, "max_epochs=15"]

    def environment(self, **variables: str) -> dict[str, str]:
        surroundings = {
            **self.server.environment, "WANDB_DIR": str(self.outputs), "WANDB_FINISH_TIMEOUT": "2",
            "WANDB_ERROR_REPORTING": "false", "OMP_NUM_THREADS": "1", **variables,
        }  # fmt: skip
        return clean_environment(self.outputs, self.outputs, **surroundings)

    def run(self, *words: str) -> str:
        """What it printed, its errors last."""
        done = expect(0, interpreter.python(words, self.environment()))
        return done.stdout + done.stderr

    def start(self, sweep: str, *words: str, **environment: str) -> interpreter.Command:
        """A long training, as soon as it has logged some rows."""
        command = interpreter.start([*self.long, f"sweep={sweep}", *words], self.environment(**environment))

        def rows() -> int:
            files = (self.outputs / sweep).glob("*/metrics.csv")
            return max((file.read_text().count("\n") for file in files), default=0)

        wait_for(lambda: rows() > 8 or command.poll() is not None)
        return command

    def kill(self, sweep: str, **environment: str) -> None:
        with self.start(sweep, **environment) as command:
            command.send_signal(signal.SIGKILL)
            assert command.wait() == -signal.SIGKILL

    def sync(self, printed: str) -> str:
        """The command that was printed, as a user's shell reads it."""
        line = re.findall(r"wandb sync \S+", printed)[-1]
        words = ["sh", "-c", f"{shlex.quote(str(Path(sys.executable).parent))}/{line}"]
        done = expect(0, interpreter.program(words, self.environment()))
        return done.stdout + done.stderr

    def received(self, group: str, job_type: str = "train") -> list[StoredRun]:
        held = self.server.store.runs.values()
        return [run for run in held if (run.fields.get("groupName"), run.fields.get("jobType")) == (group, job_type)]


@pytest.fixture(scope="module")
def commands(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with wandb_server() as server:
        yield Commands(server, tiny_corpus, tmp_path_factory.mktemp("outputs"))
        assert server.store.unknown == []


def assert_whole(run: StoredRun, folder: Path) -> None:
    """The server holds every step of the run's own table, each once and in order."""
    history = run.history
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["_step"] for row in history] == list(range(len(history)))
    for key in ("train/loss_step", "validation/dev/wer", "train/loss_epoch"):
        steps = [row["trainer/global_step"] for row in history if key in row]
        assert steps == [int(row["step"]) for row in rows if row.get(key)], key
        assert steps == sorted(set(steps)), key
    assert sum("final/test/wer" in row for row in history) == 1
    assert run.state == "finished"


def test_two_arms_their_evaluation_reproduction_and_comparison_are_received_as_runs_of_one_group(
    commands: Commands, tmp_path: Path
) -> None:
    sweep = ["-cd", "sweeps", "-cn", "rnn_type", "rnn=lstm,gru", "seed=0", "max_epochs=2"]
    printed = commands.run(commands.train[0], "-m", *sweep, *commands.train[1:], "logger.artifacts=[utterances]")
    assert "wandb sync" not in printed, "everything was received"
    assert f"W&B: {commands.server.address}/{ENTITY}/{PROJECT} (group rnn_type)" in printed.splitlines()
    folders = {folder.name[-8:]: folder for folder in run_folders(commands.outputs / "rnn_type")}
    arms = {run.config["identity"]: run for run in commands.received("rnn_type")}
    assert arms.keys() == folders.keys()
    assert {run.config["rnn"] for run in arms.values()} == {"lstm", "gru"}
    for identity, run in arms.items():
        folder, config = folders[identity], run.config
        assert_whole(run, folder)
        assert run.exit_codes == [0]
        assert run.fields["tags"] == [f"rnn={config['rnn']}"]
        assert "GRU" in run.fields["notes"] or "LSTM" in run.fields["notes"]
        assert (config["width"], config["optimizer"], config["data"]) == (8, "adamw", "librispeech")
        assert not {"outputs", "logger", "threads", "workers", "languages"} & {key.split(".")[0] for key in config}
        assert not [key for key in config if key.startswith(("data.root", "data.download", "cache."))]
        summary = json.loads((folder / "summary.json").read_text())
        assert run.summary["final/test/wer"] == 100 * summary["sets"]["test"]["wer"]
        assert run.summary["validation/dev/wer"]["min"] == 100 * summary["best_validation_wer"]
        assert run.summary["parameters"] == summary["parameters"]
        assert run.summary["peak_memory_bytes"] == summary["peak_memory_bytes"]
        assert run.summary["seconds/train"] == summary["seconds"]["train"]
        assert run.files["utterances"]["utterances.csv"] == (folder / "utterances.csv").read_bytes()
        axes = {node.get("1") or node["2"]: run.metrics[node["5"] - 1]["1"] for node in run.metrics if "5" in node}
        assert set(axes.values()) == {"trainer/global_step"}
        assert {"*", "validation/dev/wer", "validation/dev/loss"} <= set(axes)

    identity, folder = next(iter(folders.items()))
    beam = ["decoder=beam", "untrained=decode", "decoder.beam_width=4"]
    commands.run("src/evaluate.py", f"run={folder}", "gpus=0", *beam)
    commands.run("src/reproduce.py", str(folder))
    (evaluation,) = commands.received("rnn_type", "evaluation")
    (reproduction,) = commands.received("rnn_type", "reproduction")
    assert evaluation.config["identity"] == reproduction.config["identity"] == identity
    assert evaluation.config["evaluation"].startswith("beam")
    assert evaluation.config["decoder"] == "beam"
    assert "decoder.beam_width" in evaluation.config
    assert evaluation.summary["final/test/wer"] >= 0
    assert reproduction.summary["reproduction/verdict"] == "match"
    assert {evaluation.state, reproduction.state} == {"finished"}

    sweep = ["src/compare.py", str(commands.outputs / "rnn_type"), "--no-page", "--out", str(tmp_path)]
    commands.run(*sweep, "--wandb-log", PROJECT)
    assert len(commands.received("rnn_type", "comparison")) == 1
    (view,) = commands.server.store.views.values()
    assert view["displayName"] == "rnn_type"
    named = "config:rnn.value", "config:seed.value", "summary:final/test/wer", "final/test/wer", "arm.value", "rnn_type"
    assert all(f'"{name}"' in view["spec"] for name in named)


def test_a_killed_run_goes_on_in_its_own_history(commands: Commands) -> None:
    """W&B's service dies with the run: what it had not sent is in no file of its own."""
    commands.kill("killed")
    (earlier,) = commands.received("killed")
    commands.run(*commands.long, "sweep=killed")
    (run,) = commands.received("killed")
    assert run is earlier, "it is resumed, and not begun anew"
    (folder,) = run_folders(commands.outputs / "killed")
    assert_whole(run, folder)
    assert all(offset == held for offset, held in run.parts), "no line is sent twice"


def test_an_offline_part_that_was_not_sent_is_sent_by_the_online_one(commands: Commands) -> None:
    commands.kill("unsent", WANDB_MODE="offline")
    commands.run(*commands.long, "sweep=unsent")
    (run,) = commands.received("unsent")
    (folder,) = run_folders(commands.outputs / "unsent")
    assert_whole(run, folder)
    assert "No runs to sync" in commands.sync(f"wandb sync {folder}/wandb/offline-run-*")


def test_a_server_that_goes_away_costs_a_line_and_gets_everything_later(commands: Commands) -> None:
    with commands.start("alone", "logger.artifacts=[utterances]", WANDB__GRAPHQL_RETRY_MAX="1") as command:
        commands.server.go_away()
        done = command.finish()
    commands.server.come_back()
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(commands.outputs / "alone")
    assert json.loads((folder / "status.json").read_text())["status"] == "done"
    gone = "W&B has not received everything: its server does not answer"
    assert [line for line in done.stderr.splitlines() if line and "the training set" not in line] == [gone]
    assert f"wandb sync {folder}/wandb/offline-run-*" in done.stdout
    commands.sync(done.stdout)
    (run,) = commands.received("alone")
    assert_whole(run, folder)
    assert run.files["utterances"]["utterances.csv"] == (folder / "utterances.csv").read_bytes()
