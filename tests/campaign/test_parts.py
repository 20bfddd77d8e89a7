"""What the parts judge by: each finds what it is there to find."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Records
from tests.campaign.commands import Result, adopt_orphans, left_running, until
from tests.campaign.fault_places import JUDGING_ROOMS, draw
from tests.campaign.input_table import Case, judge, read_table
from tests.campaign.part import Context, Report
from tests.campaign.parts import same_arm, survival
from tests.campaign.parts.values import BAD, Turned, judged, unlike, value_cases
from tests.campaign.typed import Tried, name_of
from tests.campaign.victims import half_files, temporary
from tests.helpers.interpreter import SOURCE
from tests.helpers.invented_records import record


def test_a_seed_draws_the_same_faults_and_each_leaves_a_file_that_parses(tmp_path: Path) -> None:
    for room in ("asr_verdicts", "asr_ablations/tools"):
        shutil.copytree(REPOSITORY / "src" / room, tmp_path / "src" / room)
    faults = draw(tmp_path, 50, seed=3)
    assert faults == draw(tmp_path, 50, seed=3)
    assert len({fault.name for fault in faults}) == 50
    assert sum(fault.room in JUDGING_ROOMS for fault in faults) == 30
    for fault in faults:
        source = (tmp_path / fault.path).read_bytes()
        assert ast.dump(ast.parse(fault.planted(source))) != ast.dump(ast.parse(source)), fault


CASE = Case("train", 1, "rnn=x", (2,), ("rnn=x",), "")


def test_the_table_has_rows_for_every_command_each_once() -> None:
    cases = read_table()
    assert {case.command for case in cases} == {path.stem for path in SOURCE.glob("*.py")}
    keys = [(case.command, case.typed, case.shell) for case in cases]
    assert [key for key in keys if keys.count(key) > 1] == []
    assert len(cases) > 400


@pytest.mark.parametrize(
    ("result", "executed", "outcome"),
    [
        (Result(2, "", "error: rnn=x: expected gru\n"), False, "fine"),
        (Result(2, "", "usage: x\nx: error: rnn=x\n"), False, "fine"),
        (Result(2, "", "error: rnn=y: expected gru\n"), False, "wrong message"),
        (Result(2, "", "what is wrong\nerror: rnn=x\n"), False, "fine"),
        (Result(2, "", "error: rnn=x\nand more\n"), False, "wrong message"),
        (Result(2, "", "error: rnn=x\n"), True, "executed"),
        (Result(2, "", "Traceback (most recent call last):\nerror: rnn=x\n"), False, "traceback"),
        (Result(1, "", "error: rnn=x\n"), False, "wrong exit code"),
        (Result(0, "trained", ""), False, "silent"),
        (Result(-11, "", ""), False, "crash"),
        (Result(None, "", ""), False, "hang"),
    ],
)
def test_an_outcome_is_told_from_the_others(result: Result, executed: bool, outcome: str) -> None:
    assert judge(CASE, result, CASE.words, executed) == outcome


def test_every_key_gets_every_bad_value_once(tmp_path: Path) -> None:
    cases = value_cases(tmp_path)
    names = [name_of(case) for case in cases]
    assert len(names) == len({*names}) == len(BAD) * len({(case.command, case.option, case.key) for case in cases})
    keys = {case.key for case in cases}
    assert {"seed", "batch.size", "optimizer.lr", "until.margin", "data.words", "tune.seed", "limits.minutes"} <= keys
    assert len(keys) > 150


@pytest.mark.parametrize(
    ("codes", "outcome", "words", "ended"),
    [
        ((2,), "fine", "exit code 2, 1 lines: error: optimizer.lr=x: expected a number", "fine"),
        ((2,), "fine", "exit code 2, 1 lines: error: optimizer: the lr is no number", "fine"),
        ((2,), "fine", "exit code 2, 1 lines: error: optimizer or schedule: Invalid learning rate", "wrong message"),
        ((2,), "fine", "exit code 2, 1 lines: error: '<=' not supported", "wrong message"),
        ((2,), "silent", "exit code 0, 21 lines: trained", "silent"),
        ((2,), "wrong exit code", "exit code 1, 1 lines: diverged at step 2: the loss is nan", "wrong exit code"),
        ((0,), "fine", "exit code 0, 21 lines: trained", "fine"),
        ((0,), "wrong exit code", "exit code 1, 1 lines: diverged at step 2: the loss is nan", "fine"),
        ((0,), "wrong exit code", "exit code 1, 1 lines: something else", "wrong exit code"),
        ((0,), "wrong exit code", "exit code 2, 1 lines: error: optimizer.lr=x: expected", "wrong exit code"),
        ((0,), "hang", "exit code None, 0 lines: ", "hang"),
    ],
)
def test_how_a_bad_value_ends(codes: tuple[int, ...], outcome: str, words: str, ended: str) -> None:
    assert judged(turned("optimizer.lr=x", codes), outcome, words)[0] == ended


def turned(word: str, codes: tuple[int, ...] = (0,)) -> Turned:
    return Turned("train", 0, word, codes, (), "", "optimizer=adam", (word,))


def test_an_admitted_value_is_looked_for_in_what_the_run_records(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\ndropout: 0.1\nseeds: {init: null}\n")
    typed = [("seed=0", None), ("seeds.init=null", None), ("dropout=0", "dropout=0.1"), ("seed=0.0", "seed=0")]
    for word, found in typed:
        assert (found or "None") in str(unlike(turned(word), [tmp_path]))
    assert unlike(turned("seed=1"), [tmp_path / "elsewhere"]) is None


def test_a_part_continues_with_what_is_left_and_what_failed(tmp_path: Path) -> None:
    def run(bad: str, earlier: list[dict[str, str]] = [], seconds: float = 600.0) -> tuple[list[str], Report]:  # noqa: B006
        context = Context(tmp_path, 0, seconds, lambda *_: None, earlier=earlier)
        report, names = context.report("kind", "cases", "fine"), []
        tried = Tried(context, report, ("fine",))
        for name in tried.left(["a", "b", "c", "d"], str):
            names.append(name)
            tried.add(name, "letters", "silent" if name == bad else "fine", f"said of {name}")
        tried.close(("fine", "silent"))
        return names, report

    names, first = run("c")
    assert (names, first.failures, first.rows) == ([*"abcd"], ["c: silent: said of c"], [["letters", "4", "3", "1"]])
    names, second = run("", [case for case in first.cases if case["case"] != "b"])
    assert (names, second.failures, second.counts) == (["b", "c"], [], {"cases": 4, "fine": 4})
    assert run("", seconds=0.0)[1].counts == {"not tried": 3, "cases": 1, "fine": 1}


def test_half_files_and_temporary_ones_are_found(tmp_path: Path) -> None:
    sound = {"a.json": "{}", "b.csv": "a,b\n1,2\n", "c.yaml": "a: 1\n", ".d.json.17": "{", "e.log": "{"}
    for name, text in sound.items():
        (tmp_path / name).write_text(text)
    assert half_files(tmp_path) == []
    assert temporary(tmp_path) == [".d.json.17"]
    damaged = {"a.json": "{", "b.csv": "a,b\n1\n", "c.yaml": "a: b: c", "f.ckpt": ""}
    for name, text in damaged.items():
        (tmp_path / name).write_text(text)
    assert sorted(line.partition(":")[0] for line in half_files(tmp_path)) == sorted(damaged)


def test_a_process_that_outlives_its_command_is_found() -> None:
    adopt_orphans()
    standing = {process.pid for process in left_running(set())}
    # the orphan tells its id and sleeps until it is killed; its parent ends when its own input does
    orphan = "import os, time; print(os.getpid(), flush=True); time.sleep(3600)"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {orphan!r}]); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
    assert [left.pid for left in left_running(standing)] == [pid]
    os.kill(pid, 9)
    assert until(lambda: not left_running(standing), 600)
    process.stdout.close()


def test_every_option_that_keeps_a_state_is_stopped_at_every_boundary() -> None:
    moments = [("on_train_batch_end", 1), ("on_validation_start", 2)]
    cases = survival.shuffled(moments, seed=0)
    options = {option for option, _, _ in cases}
    assert {"averaging=ema", "gradient=noise", "schedule=newbob", "optimizer=adam", "order=sortagrad"} <= options
    assert len(set(cases)) == len(cases) == len(options) * len(moments) * 3
    assert survival.shuffled(moments, seed=1) != cases


def test_an_arms_halves_are_called_different_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [record("rnn=lstm", seed, 0.2 + 0.1 * (seed >= 10) + 0.001 * seed) for seed in range(20)]
    monkeypatch.setattr(same_arm, "load", lambda folders: Records(runs))
    (sample,) = same_arm.samples(tmp_path).values()
    seeds = np.arange(20)
    for looks in same_arm.ways(10).values():
        assert same_arm.called_different(sample, seeds[:10], seeds[10:], looks)
        assert not same_arm.called_different(sample, seeds[::2], seeds[1::2], looks)
    runs.append(record("rnn=gru", 0, 0.2))
    with pytest.raises(UsageError, match="2 arms"):
        same_arm.samples(tmp_path)
