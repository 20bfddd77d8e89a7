"""A W&B agent takes an arm: its own code starts the command of our definition, offline."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers import interpreter
from tests.helpers.command import SHRUNKEN, clean_environment, run_folders
from tests.helpers.wandb_file import read_run

AGENT = """
import sys, yaml
from wandb.wandb_agent import Agent
with open(sys.argv[1]) as file:
    made = yaml.safe_load(file)
agent = Agent(api=None, queue=None, sweep_id="a-sweep")
agent._sweep_command = made["command"]
for number in range(2):
    arguments = {"rnn": {"value": "gru"}, "seed": {"value": 1}}
    order = {"type": "run", "run_id": f"agents-{number}", "program": made["program"], "args": arguments}
    agent._process_command(order)
    assert agent._run_processes[f"agents-{number}"].wait() == 0
"""
"""What `wandb agent` does with two orders of its server, here for the same arm."""


@pytest.fixture(scope="module")
def agent(corpora, tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    asked = ["sweeps/rnn_type.yaml", "--output", str(folder / "w.yaml"), *SHRUNKEN, "max_epochs=1", f"outputs={folder}"]
    written = python("src/sweep.py", "wandb", *asked, corpora=corpora, folder=folder)
    assert written.returncode == 0, written.stderr
    (folder / "agent.py").write_text(AGENT)
    done = python(str(folder / "agent.py"), str(folder / "w.yaml"), corpora=corpora, folder=folder)
    assert done.returncode == 0, done.stderr
    return written, done, folder


def python(*arguments: str, corpora: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(corpora, folder, WANDB_SWEEP_ID="a-sweep", WANDB_DIR=str(folder))
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"  # an activated environment
    return interpreter.python(arguments, environment)


def test_it_says_what_to_do_next(agent):
    written, _, folder = agent
    made = yaml.safe_load((folder / "w.yaml").read_text())
    assert made["method"] == "grid"
    assert "grid of 9 arms" in written.stdout
    assert f"wandb sweep {folder / 'w.yaml'}" in written.stdout
    assert "wandb agent <entity>/asr-ablations/<sweep>" in written.stdout


def test_the_folder_is_the_contents_and_the_wandb_run_the_agents(agent):
    _, _, folder = agent
    (run,) = run_folders(folder)
    assert run.parent.name == "rnn_type"
    identity = json.loads((run / "environment.json").read_text())["id"]
    assert run.name.endswith(identity)
    (path,) = run.rglob("*.wandb")
    found = read_run(path)
    assert (found["id"], found["group"]) == ("agents-0", "rnn_type")
    assert (found["config"]["rnn"], found["config"]["seed"], found["config"]["width"]) == ("gru", 1, 16)
    assert [row for row in found["history"] if "validation/dev-clean/wer" in row], "what the definition calls metric"


def test_the_same_arm_is_not_trained_twice(agent):
    _, done, folder = agent
    assert done.stdout.count("done already") == 1
    assert len(run_folders(folder)) == 1
    assert "Ignoring" not in done.stderr, "W&B has nothing to say against how it is called"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wandb", "sweeps/absent.yaml"], "there is no such sweep file"),
        (["wandb", "sweeps/hyperparameters.yaml", "--method", "grid"], "optimizer.lr is an interval"),
        (["wandb", "sweeps/rnn_type.yaml", "widht=3"], "widht"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, said, corpora, tmp_path):
    done = python("src/sweep.py", *arguments, "--output", str(tmp_path / "w.yaml"), corpora=corpora, folder=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert said in line
    assert not (tmp_path / "w.yaml").exists()
