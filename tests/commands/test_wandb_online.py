"""What W&B's client sends online, received by a stand-in for its server on loopback (tests/helpers/wandb_server.py):
two arms, an evaluation, a reproduction, a comparison, runs that are killed, and a server that goes away.
"""

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
NO_PATIENCE = {"WANDB__GRAPHQL_RETRY_MAX": "1"}
"""W&B's client tries again once where a server does not answer."""
GONE = "W&B has not received everything: its server does not answer"
SETS = ["data.train=[train]", "data.validation=[dev]", "data.test=[train,test]"]
SMALL = ["width=8", "layers=1", "batch.size=2", "cache=none", "gpus=0", "checkpoint_minutes=0"]
LONG, SHORT = "max_epochs=15", "max_epochs=2"


class Commands:
    """Commands on the corpus of tones, logged to the server; outputs: where their runs are."""

    def __init__(self, server: StandIn, corpus: Path, outputs: Path) -> None:
        self.server, self.outputs = server, outputs
        self.train = ["src/train.py", "data=librispeech", f"data.root={corpus}", *SETS, *SMALL, f"outputs={outputs}"]

    def start(self, words: list[str], **environment: str) -> interpreter.Command:
        surroundings = {
            **self.server.environment, "WANDB_DIR": str(self.outputs), "WANDB_FINISH_TIMEOUT": "2",
            "WANDB_ERROR_REPORTING": "false", "OMP_NUM_THREADS": "1", **environment,
        }  # fmt: skip
        return interpreter.start(words, clean_environment(self.outputs, self.outputs, **surroundings))

    def run(self, *words: str, **environment: str) -> str:
        """What it printed, its errors last."""
        with self.start([*words], **environment) as command:
            done = command.finish()
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def cut(self, sweep: str, number: int, **environment: str) -> None:
        """Start a training, and end it by a signal when it has logged some rows."""
        with self.start([*self.train, f"sweep={sweep}", LONG], **environment) as command:
            wait_for(lambda: len(self.logged(sweep)) > 8 or command.poll() is not None)
            command.send_signal(number)
            assert command.finish().returncode != 0

    def logged(self, sweep: str) -> list[str]:
        files = [*(self.outputs / sweep).glob("*/metrics.csv")]
        return files[0].read_text().splitlines() if files else []

    def sync(self, printed: str) -> str:
        """The command that was printed, as a user's shell reads it."""
        line = re.findall(r"wandb sync \S+", printed)[-1]
        words = ["sh", "-c", f"{shlex.quote(str(Path(sys.executable).parent))}/{line}"]
        environment = clean_environment(
            self.outputs, self.outputs, WANDB_DIR=str(self.outputs), **self.server.environment
        )
        done = expect(0, interpreter.program(words, environment))
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def commands(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with wandb_server() as server:
        yield Commands(server, tiny_corpus, tmp_path_factory.mktemp("outputs"))
        assert server.store.unknown == []


def runs(commands: Commands, group: str, job_type: str = "train") -> list[StoredRun]:
    held = commands.server.store.project(ENTITY, PROJECT)
    return [run for run in held if (run.fields.get("groupName"), run.fields.get("jobType")) == (group, job_type)]


@pytest.fixture(scope="module")
def arms(commands: Commands) -> dict[str, tuple[StoredRun, Path]]:
    """Two arms of a sweep, each as received and its folder, by the RNN; after that an evaluation, a reproduction."""
    sweep = ["-cd", "sweeps", "-cn", "rnn_type", "rnn=lstm,gru", "seed=0", SHORT]
    printed = commands.run(commands.train[0], "-m", *sweep, *commands.train[1:], "logger.artifacts=[utterances]")
    assert "wandb sync" not in printed, "everything was received"
    assert f"W&B: {commands.server.address}/{ENTITY}/{PROJECT} (group rnn_type)" in printed.splitlines()
    folders = run_folders(commands.outputs / "rnn_type")
    commands.run(
        "src/evaluate.py", f"run={folders[0]}", "gpus=0", "decoder=beam", "untrained=decode", "decoder.beam_width=4"
    )
    commands.run("src/reproduce.py", str(folders[0]))
    received = {run.config["identity"]: run for run in runs(commands, "rnn_type")}
    both = [(received[folder.name[-8:]], folder) for folder in folders]
    return {run.config["rnn"]: (run, folder) for run, folder in both}


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


def test_two_arms_are_received_as_two_runs_of_one_group(arms: dict[str, tuple[StoredRun, Path]]) -> None:
    assert set(arms) == {"lstm", "gru"}
    assert len({run.id for run, _ in arms.values()}) == 2
    for rnn, (run, folder) in arms.items():
        assert_whole(run, folder)
        assert run.exit_codes == [0]
        assert run.fields["tags"] == [f"rnn={rnn}"]
        assert "GRU" in run.fields["notes"] or "LSTM" in run.fields["notes"]
        assert (run.config["width"], run.config["optimizer"], run.config["data"]) == (8, "adamw", "librispeech")
        assert not {"outputs", "logger", "threads", "workers", "languages"} & {key.split(".")[0] for key in run.config}
        assert not [key for key in run.config if key.startswith(("data.root", "data.download", "cache."))]
        summary = json.loads((folder / "summary.json").read_text())
        assert run.summary["final/test/wer"] == 100 * summary["sets"]["test"]["wer"]
        assert run.summary["validation/dev/wer"]["min"] == 100 * summary["best_validation_wer"]
        assert run.summary["parameters"] == summary["parameters"]
        assert run.summary["peak_memory_bytes"] == summary["peak_memory_bytes"]
        assert run.summary["seconds/train"] == summary["seconds"]["train"]
        names = [node.get("1") for node in run.raw_config["_wandb"]["value"]["m"]]
        axes = {name: names[node["5"] - 1] for name, node in run.metrics.items() if "5" in node}
        assert set(axes.values()) == {"trainer/global_step"}
        assert {"*", "validation/dev/wer", "validation/dev/loss"} <= set(axes)


def test_an_evaluation_and_a_reproduction_are_runs_of_the_group(
    commands: Commands, arms: dict[str, tuple[StoredRun, Path]]
) -> None:
    (evaluation,) = runs(commands, "rnn_type", "evaluation")
    (reproduction,) = runs(commands, "rnn_type", "reproduction")
    original = {folder.name[-8:] for _, folder in arms.values()} & {evaluation.config["identity"]}
    assert {reproduction.config["identity"]} == original
    assert evaluation.config["evaluation"].startswith("beam")
    assert evaluation.config["decoder"] == "beam"
    assert "decoder.beam_width" in evaluation.config
    assert evaluation.summary["final/test/wer"] >= 0
    assert reproduction.summary["reproduction/verdict"] == "match"
    assert {evaluation.state, reproduction.state} == {"finished"}


def test_a_comparison_by_the_server_has_the_folders_verdicts(
    commands: Commands, arms: dict[str, tuple[StoredRun, Path]], tmp_path: Path
) -> None:
    """The comparison of the folders is logged first, into the same group: it is no arm."""
    folders, server = tmp_path / "folders", tmp_path / "server"
    sweep = str(commands.outputs / "rnn_type")
    commands.run("src/compare.py", sweep, "--no-page", "--out", str(folders), "--wandb-log", PROJECT)
    assert len(runs(commands, "rnn_type", "comparison")) == 1
    (view,) = commands.server.store.views.values()
    assert view["displayName"] == "rnn_type"
    spec = view["spec"]
    named = "config:rnn.value", "config:seed.value", "summary:final/test/wer", "final/test/wer", "arm.value", "rnn_type"
    assert all(f'"{name}"' in spec for name in named)
    commands.run("src/compare.py", f"wandb={ENTITY}/{PROJECT}/rnn_type", "--no-page", "--out", str(server))
    by_folders, by_server = (json.loads((path / "comparison.json").read_text()) for path in (folders, server))
    assert by_server["verdicts"] == by_folders["verdicts"]
    assert by_server["verdicts"]


def test_a_killed_run_goes_on_in_its_own_history(commands: Commands) -> None:
    """W&B's service dies with the run: what it had not sent is in no file of its own."""
    commands.cut("killed", signal.SIGKILL)
    (earlier,) = runs(commands, "killed")
    commands.run(*commands.train, "sweep=killed", LONG)
    (run,) = runs(commands, "killed")
    assert run is earlier, "it is resumed, and not begun anew"
    (folder,) = run_folders(commands.outputs / "killed")
    assert_whole(run, folder)
    offsets = [(part.offset, part.held) for part in run.parts if part.file == "wandb-history.jsonl"]
    assert all(offset == held for offset, held in offsets), "no line is sent twice"


def test_an_offline_part_that_was_not_sent_is_sent_by_the_online_one(commands: Commands) -> None:
    commands.cut("unsent", signal.SIGKILL, WANDB_MODE="offline")
    commands.run(*commands.train, "sweep=unsent", LONG)
    (run,) = runs(commands, "unsent")
    (folder,) = run_folders(commands.outputs / "unsent")
    assert_whole(run, folder)
    assert "No runs to sync" in commands.sync(f"wandb sync {folder}/wandb/offline-run-*")


def test_a_server_that_goes_away_costs_a_line_and_gets_everything_later(commands: Commands) -> None:
    words = [*commands.train, "sweep=alone", LONG, "logger.artifacts=[utterances]"]
    with commands.start(words) as command:
        wait_for(lambda: len(commands.logged("alone")) > 8 or command.poll() is not None)
        commands.server.go_away()
        done = command.finish()
    commands.server.come_back()
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(commands.outputs / "alone")
    assert json.loads((folder / "status.json").read_text())["status"] == "done"
    assert [line for line in done.stderr.splitlines() if line and "the training set" not in line] == [GONE]
    assert f"wandb sync {folder}/wandb/offline-run-*" in done.stdout
    commands.sync(done.stdout)
    (run,) = runs(commands, "alone")
    assert_whole(run, folder)
    held = commands.server.store.artifacts
    (artifact,) = [artifact for artifact in held if (artifact.run, artifact.type) == (run, "utterances")]
    assert artifact.files["utterances.csv"] == (folder / "utterances.csv").read_bytes()


def test_a_server_that_goes_away_while_it_is_read_is_one_line(
    commands: Commands, arms: dict[str, tuple[StoredRun, Path]]
) -> None:
    group = f"wandb={ENTITY}/{PROJECT}/rnn_type"
    words = ["src/compare.py", group, "--no-page"]
    with commands.server.gone_at("HistoryPage"), commands.start(words, **NO_PATIENCE) as command:
        done = command.finish()
    assert done.returncode == 2, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"error: {group}: ")
