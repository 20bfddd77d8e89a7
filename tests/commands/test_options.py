"""plan=true: what a sweep or a run would take."""

import re

import pytest

from tests.helpers.command import SHRUNKEN, run, run_folders
from tests.helpers.interpreter import expect


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
