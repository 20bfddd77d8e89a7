"""plan=true: what a sweep would cost, nothing trained."""

import re

import pytest

from tests.helpers.command import SHRUNKEN, run, run_folders

SWEEP = ["src/train.py", "-m", *SHRUNKEN, "logger=csv", "max_epochs=3", "rnn=lstm,gru", "sweep=s"]


def rows(out: str) -> dict[str, list[str]]:
    """The cells of each arm's row."""
    lines = [[cell.strip() for cell in line.strip("│ \n").split("│")] for line in out.splitlines() if "│" in line]
    return {cells[0]: cells[1:] for cells in lines}


@pytest.mark.slow
def test_a_plan_tells_steps_time_memory_and_disk_of_what_is_still_to_run(corpora, tmp_path):
    done = run([*SWEEP, "plan=true"], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    assert run_folders(tmp_path) == []
    assert not (tmp_path / "s").exists()
    found = rows(done.stdout)
    assert set(found) == {"rnn=lstm", "rnn=gru"}
    assert "to run: 2 of 2" in done.stdout
    trained = run(["src/train.py", "-m", "rnn=lstm", *SWEEP[2:-2], "sweep=s"], corpora, tmp_path)  # in another order
    assert trained.returncode == 0, trained.stderr
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
    assert "to run: 1 of 2" in again.stdout
    assert len(list((tmp_path / "s" / "arms").iterdir())) == 1


def test_a_plan_of_one_run_trains_nothing_either(corpora, tmp_path):
    done = run(["src/train.py", *SHRUNKEN, "logger=csv", "plan=true"], corpora, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing was trained" in done.stdout
    assert run_folders(tmp_path) == []
