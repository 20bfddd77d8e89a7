"""The options of commands, the heads of sweep files, and plans."""

import re

import pytest

from publish import options
from tests.helpers.command import SHRUNKEN, run, run_folders
from tests.helpers.interpreter import expect


def test_the_page_has_keys_values_comments_and_options(tmp_path, monkeypatch):
    (tmp_path / "norm").mkdir()
    (tmp_path / "config.yaml").write_text(
        "defaults: [_self_, norm: batch]\n\nseed: 0\n"
        "precision: 32         # 32 or 16;\n                      # bf16: mixed\n"
        "batch:                # per GPU\n  size: 16            # utterances | of a step\n"
        "limits: {minutes: 10, megabytes: 25}   # of <one> recording\n\n# Keys below steer the machine\nthreads: null\n"
    )
    (tmp_path / "norm" / "batch.yaml").write_text(
        "# Over valid frames only\n#   python src/train.py norm=batch\n"
        "_target_: asr_ablations.components.norm.batch.BatchNorm\n_partial_: true\nepsilon: 1.0e-5\n"
    )
    (tmp_path / "norm" / "sized.yaml").write_text(
        "# @package _global_\ndefaults: [override /augment: specaugment]\n\nwidth: 8\n"
        "norm:\n  steps:\n    - {_target_: torch.nn.Identity, size: 3}\n"
    )
    (tmp_path / "norm" / "none.yaml").write_text("_target_: asr_ablations.components.norm.none.NoNorm\n")
    monkeypatch.setattr(options, "CONF", tmp_path)
    monkeypatch.setattr(options, "COMMANDS", ())
    page = options.page().splitlines()
    for line in (
        "| `seed` | `0` | |", "| `precision` | `32` | 32 or 16; bf16: mixed |", "| `batch` | | per GPU |",
        "| `batch.size` | `16` | utterances \\| of a step |", "| `limits.minutes` | `10` | of \\<one> recording |",
        "Keys below steer the machine.", "| `threads` | `null` | |",
        "| **`batch`** (default) | Over valid frames only |", "| `norm.epsilon` | `batch` | `1.0e-5` | |",
        "| `width` | `sized` | `8` | |", "| `norm.steps` | `sized` | `[{size: 3}]` | |",
        "| `augment` | `sized` | `specaugment` | the option chosen with it |", "| `sized` | |",
    ):  # fmt: skip
        assert line in page
    assert any(line.startswith("| `none` | No normalisation") for line in page), "explained by its module"


SWEEP = ["src/train.py", "-m", *SHRUNKEN, "logger=csv", "max_epochs=3", "rnn=lstm,gru", "sweep=s"]


@pytest.mark.slow
def test_a_plan_tells_steps_time_memory_and_disk_of_what_is_still_to_run(corpora, tmp_path):
    """The arm that is done took as many steps, and its checkpoints take as much, as the one that is planned."""
    expect(0, run(["src/train.py", "-m", "rnn=lstm", *SWEEP[2:-2], "sweep=s"], corpora, tmp_path))
    (folder,) = run_folders(tmp_path)
    done = expect(0, run([*SWEEP, "plan=true"], corpora, tmp_path))
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


def test_a_plan_of_one_run_trains_nothing_either(corpora, tmp_path):
    done = expect(0, run(["src/train.py", *SHRUNKEN, "logger=csv", "plan=true"], corpora, tmp_path))
    assert "nothing was trained" in done.stdout
    assert run_folders(tmp_path) == []
