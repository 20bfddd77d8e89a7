"""The page of options, from a small folder of yaml files made by hand."""

import pytest

from asr_ablations.commands import options

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
        "| `seed` | `0` | |",
        "| `precision` | `32` | 32 or 16; bf16: mixed |",
        "| `batch` | | per GPU |",
        "| `batch.size` | `16` | utterances \\| of a step |",
        "| `limits.minutes` | `10` | of \\<one> recording |",
        "Keys below steer the machine.",
        "| `threads` | `null` | |",
        "| **`batch`** (default) | Over valid frames only |",
        "| `norm.epsilon` | `batch` | `1.0e-5` | |",
        "| `width` | `sized` | `8` | |",
        "| `norm.steps` | `sized` | `[{size: 3}]` | |",
        "| `augment` | `sized` | `specaugment` | the option chosen with it |",
    ],
)
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
