"""The options of commands, the heads of sweep files, and plans."""

import re

import pytest

from publish import options
from tests.helpers.command import SHRUNKEN, run, run_folders
from tests.helpers.interpreter import expect

CONFIG = """\
# The whole of a run.
defaults:
  - _self_
  - norm: batch

seed: 0
precision: 32         # 32 or 16;
                      # bf16: mixed
batch:                # per GPU
  size: 16            # utterances | of a step
limits: {minutes: 10, megabytes: 25}   # of <one> recording

# Keys below steer the machine
threads: null

# tests:
#   seed: 1
"""
BATCH = """\
# Over valid frames only
#   python src/train.py norm=batch
_target_: asr_ablations.components.norm.batch.BatchNorm
_partial_: true
epsilon: 1.0e-5

# tests:
#   epsilon: 1
"""
SIZED = """\
# @package _global_
defaults:
  - override /augment: specaugment

width: 8
norm:
  _target_: asr_ablations.components.norm.none.NoNorm
  steps:
    - {_target_: torch.nn.Identity, size: 3}
"""


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The lines of the page of three files."""
    (tmp_path / "norm").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "norm" / "batch.yaml").write_text(BATCH, encoding="utf-8")
    (tmp_path / "norm" / "sized.yaml").write_text(SIZED, encoding="utf-8")
    monkeypatch.setattr(options, "CONF", tmp_path)
    monkeypatch.setattr(options, "COMMANDS", ())
    return options.page().splitlines()


@pytest.mark.parametrize(
    "line",
    [
        "| `seed` | `0` | |", "| `precision` | `32` | 32 or 16; bf16: mixed |", "| `batch` | | per GPU |",
        "| `batch.size` | `16` | utterances \\| of a step |", "| `limits.minutes` | `10` | of \\<one> recording |",
        "Keys below steer the machine.", "| `threads` | `null` | |",
        "| **`batch`** (default) | Over valid frames only |", "| `norm.epsilon` | `batch` | `1.0e-5` | |",
        "| `width` | `sized` | `8` | |", "| `norm.steps` | `sized` | `[{size: 3}]` | |",
        "| `augment` | `sized` | `specaugment` | the option chosen with it |",
    ],
)  # fmt: skip
def test_it_has(line, page):
    assert line in page


def test_an_option_without_a_comment_is_explained_by_the_module_that_it_names(page):
    """sized.yaml has no comment, and at its top no module."""
    assert "| `sized` | |" in page
    file = options.CONF / "norm" / "none.yaml"
    file.write_text("_target_: asr_ablations.components.norm.none.NoNorm\n", encoding="utf-8")
    assert any(line.startswith("| `none` | No normalisation") for line in options.page().splitlines())


def test_comments_for_tests_are_no_part_of_it(page):
    assert not any("tests" in line for line in page)


SWEEP = ["src/train.py", "-m", *SHRUNKEN, "logger=csv", "max_epochs=3", "rnn=lstm,gru", "sweep=s"]


def rows(out: str) -> dict[str, list[str]]:
    """The cells of each arm's row."""
    lines = [[cell.strip() for cell in line.strip("│ \n").split("│")] for line in out.splitlines() if "│" in line]
    return {cells[0]: cells[1:] for cells in lines}


@pytest.mark.slow
def test_a_plan_tells_steps_time_memory_and_disk_of_what_is_still_to_run(corpora, tmp_path):
    done = expect(0, run([*SWEEP, "plan=true"], corpora, tmp_path))
    assert run_folders(tmp_path) == []
    assert not (tmp_path / "s").exists()
    found = rows(done.stdout)
    assert set(found) == {"rnn=lstm", "rnn=gru"}
    assert "to run: 2 of 2" in done.stdout
    expect(0, run(["src/train.py", "-m", "rnn=lstm", *SWEEP[2:-2], "sweep=s"], corpora, tmp_path))
    (folder,) = run_folders(tmp_path)
    (speech,) = re.findall(r"; (\S+) hours of speech;", done.stdout)
    assert float(speech) == pytest.approx(2 * 3 * 0.02, rel=0.2)  # two arms of three epochs of data.hours
    steps, time, gpu_hours, memory, disk = found["rnn=lstm"]
    assert int(steps) == len((folder / "losses.csv").read_text().splitlines()) - 1
    assert re.fullmatch(r"\d+:\d\d:\d\d", time)
    assert float(gpu_hours) == 0
    assert 0.1 < float(memory) < 10
    checkpoints = sum(path.stat().st_size for path in (folder / "checkpoints").iterdir()) / 2**20
    assert float(disk) == pytest.approx(checkpoints, abs=1)
    again = run([*SWEEP, "plan=true"], corpora, tmp_path)
    assert rows(again.stdout)["rnn=lstm"][0] == "done"
    assert "docs/short_runs.md" in again.stdout
    assert "to run: 1 of 2" in again.stdout
    assert len(list((tmp_path / "s" / "arms").iterdir())) == 1


def test_a_plan_of_one_run_trains_nothing_either(corpora, tmp_path):
    done = expect(0, run(["src/train.py", *SHRUNKEN, "logger=csv", "plan=true"], corpora, tmp_path))
    assert "nothing was trained" in done.stdout
    assert run_folders(tmp_path) == []
