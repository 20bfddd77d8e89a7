"""The options of commands, the heads of sweep files, and plans."""

import copy
import re

import pytest

from asr_ablations.commands import options
from asr_ablations.commands.sweep_heads import arms_of, commands, cost, with_head
from tests.helpers.command import SHRUNKEN, run, run_folders
from tests.helpers.interpreter import expect
from tests.helpers.sweep_files import NAMES, SWEEPS, arms, composed, is_decoding, is_search

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


every_sweep = pytest.mark.parametrize("name", NAMES)


def text_of(name: str) -> str:
    return (SWEEPS / f"{name}.yaml").read_text(encoding="utf-8")


@every_sweep
def test_it_is_current(name: str) -> None:
    assert text_of(name) == with_head(text_of(name), name, composed(name)), "make docs writes it anew"


@every_sweep
def test_it_has_the_command_first_and_counts_the_runs(name: str) -> None:
    """The runs by the other count, which the tests compose."""
    cfg = composed(name)
    script = "evaluate" if is_decoding(name) else "train"
    question, first, second, *_ = text_of(name).splitlines()
    assert question.endswith("?")
    assert first.startswith(f"#   python src/{script}.py -m -cd sweeps -cn {name}")
    assert second.startswith("#   python src/compare.py ")
    runs = cfg.hydra.sweeper.n_trials if is_search(cfg) else len(arms(cfg))
    said = re.search(r"Cost by make docs: (?:at most )?(\d+)", text_of(name))
    assert said
    assert int(said[1]) == runs


def test_what_is_written_by_hand_stays() -> None:
    by_hand = (
        "# Why?\n#   python src/train.py -m -cd s -cn old\n# Held fixed: all.\n#   python src/lm.py\ndefaults: []\n"
    )
    head = with_head(by_hand, "rnn_type", composed("rnn_type"))
    assert head.startswith(
        "# Why?\n#   python src/train.py -m -cd sweeps -cn rnn_type\n#   python src/compare.py outputs/"
    )
    assert "# Held fixed: all.\n#   python src/lm.py\n# Cost by make docs: 9 runs" in head
    assert head.endswith("measures it.\ndefaults: []\n")
    assert with_head(head, "rnn_type", composed("rnn_type")) == head
    assert "-cn old" not in head


def test_a_cost_follows_its_file() -> None:
    """Hours of speech: runs × epochs × 2. On a V100: epochs × 75 or 119 minutes (Ambroszczyk2019 §2.1, table 2.2)."""
    cfg = copy.deepcopy(composed("rnn_type"))
    assert "9 runs (3 arms, 3 seeds) of 6 epochs, 108 hours of speech" in cost(cfg)
    assert "precision=16 68 to 107 hours of a V100" in cost(cfg)
    cfg.hydra.sweeper.params = {"rnn": "gru,lstm", "max_epochs": "10,30"}
    assert "4 runs (4 arms, 1 seed) of 10 to 30 epochs, 160 hours of speech" in cost(cfg)
    assert "100 to 159 hours of a V100" in cost(cfg)


def test_arms_in_32_bits_take_longer_on_the_papers_gpu() -> None:
    """Of nine runs of 6 epochs three take 135 minutes an epoch and six 75: 85.5 hours."""
    assert "85 to " in cost(composed("mixed_precision"))


def test_sizes_of_the_corpus_are_counted_by_arm() -> None:
    hours = 3 * 6 * sum((0.5, 1, 2, 4))
    assert f"{hours:.0f} hours of speech" in cost(composed("training_size"))
    assert f"{3 * 6 * (460 + 960):,} hours of speech" in cost(composed("librispeech_hours"))
    assert "make docs" not in cost(composed("training_size"))


def test_a_command_gives_what_its_file_leaves_open() -> None:
    assert commands(composed("librispeech_hours"), "librispeech_hours")[0].endswith(
        "librispeech_hours data.root=<folder>"
    )
    decoding = commands(composed("language_models"), "language_models")
    assert decoding[0].endswith("run=<folder of runs> models.words=<folder> models.letters=<folder>")
    assert decoding[1] == "#   python src/compare.py <a run's folder>/evaluations"


def test_a_search_has_trials_and_no_arms() -> None:
    assert arms_of(composed("hyperparameters")) == ([{}], 1, 20)
    assert "at most 20 runs of 8 epochs, 80 hours of speech" in cost(composed("hyperparameters"))


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
