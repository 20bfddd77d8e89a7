"""The launcher of a sweep: processes, GPU slots, Ray, live tables, states of arms."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.lease import LEASE_HELD_EXIT_CODE
from asr_ablations.runs.reader import read_sweep
from asr_ablations.runs.status import DIVERGED, DONE, FAILED
from asr_ablations.runs.sweep_history import declared, launches, newest_declaration
from asr_ablations.sweep.arm import ELSEWHERE, STOPPED, FrozenArm, State
from asr_ablations.sweep.launch import WORST, ArmsFailedError, objective, report_unfinished, run
from asr_ablations.sweep.manifest import write_manifest
from asr_ablations.sweep.plan import Cost, memory_warning
from asr_ablations.sweep.runner import Runner
from asr_ablations.sweep.this_machine import Machine, Slots, machine_slots
from asr_ablations.tools.machine import visible_gpus
from asr_verdicts.errors import UsageError
from tests.helpers.interpreter import SOURCE, start
from tests.helpers.processes import wait_for

SCRIPT = Path("train.py")


def test_wrong_values_are_named(tmp_path: Path) -> None:
    arm = FrozenArm("a", "1", tmp_path / "a.yaml", tmp_path / "sweep" / "a", None, 1, ())
    with pytest.raises(UsageError, match=r"hydra\.launcher\.fail_fast=maybe: expected true or false"):
        run([arm], {}, lambda arms: Machine(SCRIPT, arms, Slots([], 1, 1)), timeout=None, show=None, fail_fast="maybe")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"hydra\.launcher\.jobs=0: expected a whole number, 1 or more"):
        machine_slots(0, 1, [arm])
    assert list(tmp_path.iterdir()) == []


def launch(sweep: Path, started: str, names: str, *, search: bool = False, config: str = "seed: 0") -> None:
    cfg = DictConfig(OmegaConf.create(config))
    arms = [FrozenArm(name, name, sweep / "a.yaml", sweep / name, None, 1, (), cfg) for name in names]
    write_manifest(sweep, arms, {"started": started, "command": ["train.py"], "search": search})


def test_the_manifest_keeps_every_launch_and_all_arms(tmp_path: Path) -> None:
    launch(tmp_path, "monday", "ab")
    launch(tmp_path, "tuesday", "bc")
    assert [(row["started"], row["arms"]) for row in launches(tmp_path)] == [
        ("monday", ["a", "b"]),
        ("tuesday", ["b", "c"]),
    ]
    assert [arm["id"] for arm in read_sweep(tmp_path)["arms"]] == ["a", "b", "c"]
    assert declared(tmp_path) == {"a", "b"}
    launch(tmp_path / "search", "monday", "ab", search=True)
    launch(tmp_path / "search", "monday", "bc", search=True)  # a search hands out its arms in portions
    (row,) = launches(tmp_path / "search")
    assert (row["arms"], row["search"]) == (["a", "b", "c"], True)
    assert declared(tmp_path / "search") is None


def test_the_manifest_has_the_newest_declaration(tmp_path: Path) -> None:
    """A launch that declares nothing, such as one more seed from the command line, takes none away."""
    for text in ("ablation: {factor: dropout}", "ablation: {factor: rnn}", "seed: 0"):
        launch(tmp_path, text, "a", config=text)
    assert newest_declaration(tmp_path) == {"factor": "rnn"}
    (tmp_path / "sweep.json").write_text('{"ablation": {"question": "${oc.env:HOME}"}}')
    assert newest_declaration(tmp_path) is None, "a stranger's manifest fetches nothing"


def test_the_report_names_every_arm_that_is_not_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = {"a": (DONE, ""), "b": (DIVERGED, "diverged at step 7: the loss is nan"), "c": (FAILED, "exit code 3")}
    states = [
        State(FrozenArm(name, name, tmp_path, tmp_path / name, None, 1, (f"rnn={name}",)), status, reason)
        for name, (status, reason) in {**ends, "d": (STOPPED, "stopped")}.items()
    ]
    report_unfinished(states)
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "1 of 4 arms diverged, which is a result: force=true runs them again",
        "  rnn=b: diverged at step 7: the loss is nan",
    ]
    assert err.splitlines() == [
        "1 of 4 arms failed; the same command runs them again",
        "  rnn=c: exit code 3",
        f"    {states[2].arm.log}",
        "1 of 4 arms were stopped; the same command continues them",
    ]


def test_a_search_takes_a_run_that_diverged_for_the_worst_and_one_that_failed_for_an_error(tmp_path: Path) -> None:
    arm = FrozenArm("a", "a", tmp_path, tmp_path, None, 1, ())
    assert objective(State(arm, DIVERGED)) == WORST == 1.0
    with pytest.raises(ArmsFailedError):
        objective(State(arm, FAILED))


def test_arms_take_the_gpus_and_places_that_are_free() -> None:
    def assign(slots: Slots, *needed: int | None) -> list[list[str] | None]:
        """The GPUs that each arm gets, in turn; an arm that gets a place keeps it."""
        assigned: list[list[str] | None] = []
        for key, count in enumerate(needed):
            assigned.append(gpus := slots.free_gpus(count))
            if gpus is not None:
                slots.taken[key] = gpus
        return assigned

    assert assign(Slots(["0", "1"], jobs=2, per_gpu=1), 1, None, 1) == [["0"], ["1"], None]
    shared = Slots(["0", "1"], jobs=4, per_gpu=2)
    assert assign(shared, 1, 1, 1, 1, 1) == [["0"], ["1"], ["0"], ["1"], None], "they spread first"
    several = Slots(["a", "b", "c"], jobs=9, per_gpu=3)
    assert assign(several, 2, 1, 1, 1, 1) == [["a", "b"], ["c"], ["c"], ["c"], None], "one of several has them alone"
    assert assign(Slots(["a", "b", "c"], jobs=9, per_gpu=3), 1, 3, 2) == [["a"], None, ["b", "c"]]
    assert assign(Slots([], jobs=2, per_gpu=1), None, 0, None) == [[], [], None]
    assert Slots([], jobs=1, per_gpu=1).free_gpus(1) is None, "an arm that insists on a GPU never fits"
    assert Slots(["0", "1", "2"], jobs=3, per_gpu=1).free_gpus(None, ranks=2) == ["0", "1"]
    assert Slots([], jobs=3, per_gpu=1).free_gpus(None, ranks=2) == []
    slots = Slots(["0"], jobs=1, per_gpu=1)
    assert assign(slots, 1) == [["0"]]
    assert slots.free_gpus(1) is None
    del slots.taken[0]
    assert slots.free_gpus(1) == ["0"], "what is given back is handed out again"


def arm(gpus: int | None, ranks: int = 1) -> FrozenArm:
    return FrozenArm("a", "a", Path("a.yaml"), Path("a"), gpus, ranks, ())


def arms(*needed: tuple[int | None, int]) -> list[FrozenArm]:
    """Arms of (gpus, ranks)."""
    return [arm(*own) for own in needed]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Eight cores with 64 GiB of free memory, without GPUs."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(8))
    monkeypatch.setattr("asr_ablations.sweep.this_machine.available_memory", lambda: 64 * 2**30)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return monkeypatch


def test_by_default_there_is_an_arm_per_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-1f, 5")
    assert visible_gpus() == ["3", "GPU-1f", "5"]
    slots = machine_slots(None, 2, arms((None, 1), (0, 1)))
    assert (slots.jobs, slots.threads(2), slots.threads(9)) == (6, 4, 1)
    on_cpu = machine_slots(None, 2, arms((0, 1), (0, 1)))
    assert (on_cpu.jobs, on_cpu.threads(2)) == (8, 1), "all arms leave the GPUs alone"


def test_by_default_a_cpu_takes_an_arm_per_core_with_a_thread_each(machine: pytest.MonkeyPatch) -> None:
    assert visible_gpus() == []
    slots = machine_slots(None, 2, arms((None, 1), (0, 1)))
    assert slots.jobs == 8
    assert [slots.threads(count) for count in (0, 1, 2, 20)] == [1, 1, 1, 1], "whatever the number of arms"
    assert machine_slots(None, 1, arms((None, 1), (0, 3))).jobs == 2, "a rank per core"
    assert machine_slots(None, 1, arms((0, 9))).jobs == 1
    for free, jobs in ((16 * 2**30, 8), (int(7.9 * 2**30), 3), (2**30, 1), (None, 8)):
        machine.setattr("asr_ablations.sweep.this_machine.available_memory", lambda free=free: free)
        assert machine_slots(None, 1, arms((0, 1))).jobs == jobs, "as many as the memory takes"
    given = machine_slots(2, 1, arms((None, 1)))
    assert (given.jobs, given.threads(9), given.threads(1)) == (2, 4, 8), "who gives jobs shares out the cores"
    assert [Slots([], jobs, per_gpu=1).threads(9) for jobs in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]
    machine.setenv("OMP_NUM_THREADS", "2")
    assert Slots([], jobs=1, per_gpu=1).threads(9) == 2


def test_a_plan_names_what_the_memory_takes() -> None:
    costs = [Cost(1, speech=1.0, seconds=1.0, gpus=0, memory=memory, disk=0) for memory in (2, 5, 4, 3)]
    assert memory_warning(costs, jobs=2, free=9) is None
    assert memory_warning(costs, jobs=3, free=None) is None
    assert "jobs=2" in str(memory_warning(costs, jobs=3, free=11))
    assert "jobs=1" in str(memory_warning(costs, jobs=3, free=1))
    assert memory_warning([Cost(1, speech=1.0, seconds=1.0, gpus=1, memory=99, disk=0)], jobs=3, free=1) is None


def test_arms_share_a_gpu_as_far_as_its_memory_and_the_cores_go(
    machine: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The costs of arms come from a table in place of a GPU; what is made of them is the whole of per_gpu=auto."""
    module = "asr_ablations.sweep.this_machine"
    machine.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    machine.setattr(f"{module}._fits", {})
    machine.setattr(f"{module}.gpu_memory", lambda: 80 * 2**30)
    machine.setattr(f"{module}.cores", lambda: 64)
    measured = []

    def measure_arms(arms: list[FrozenArm], threads: int) -> list[Cost]:
        measured.extend(arm.id for arm in arms)
        return [Cost(1, 1.0, 1.0, 1, int(float(arm.overrides[0].split("=")[1]) * 2**30), 1) for arm in arms]

    machine.setattr("asr_ablations.sweep.plan.measure_arms", measure_arms)
    sweep = [
        FrozenArm(id, id, tmp_path, tmp_path, None, 1, (f"gib={gib}", f"seed={seed}"))
        for id, gib, seed in [("a", 2.5, 0), ("b", 2.5, 1), ("c", 5.5, 0)]
    ]
    assert machine_slots(None, "auto", sweep).per_gpu == 12  # of 6 GiB with CUDA's own, in nine tenths of 80
    assert machine_slots(None, "auto", sweep[:2]).per_gpu == 24
    assert len(measured) == 2  # one arm of each kind, once
    assert "12 arms per GPU of 80.0 GiB (the largest arm takes 6.0 GiB)" in capsys.readouterr().out
    machine.setattr(f"{module}.cores", lambda: 8)
    assert machine_slots(None, "auto", sweep).per_gpu == 4
    machine.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine_slots(None, "auto", sweep).per_gpu == 1


def test_an_arm_that_no_place_of_this_machine_fits_is_named() -> None:
    with pytest.raises(UsageError, match="arm a: gpus=3, but this machine has 2"):
        Machine(SCRIPT, [arm(1), arm(3)], Slots(["0", "1"], jobs=2, per_gpu=1))
    with pytest.raises(UsageError, match="arm a: ranks=3, but this machine has 2 GPUs; expected gpus=0"):
        Machine(SCRIPT, [arm(None, ranks=3)], Slots(["0", "1"], jobs=2, per_gpu=1))
    Machine(SCRIPT, [arm(None, ranks=3), arm(0, ranks=3)], Slots([], jobs=2, per_gpu=1))


def test_ray_reserves_cpus_of_each_rank_and_gpus_or_a_share_of_one() -> None:
    """Four arms of one GPU share it."""
    pytest.importorskip("ray", reason="the extra ray, which make test installs")
    from asr_ablations.sweep.cluster import list_resources

    for gpus, ranks, has_gpus, expected in [
        (None, 1, False, (2, 0)), (None, 1, True, (2, 0.25)), (None, 2, True, (4, 2)), (0, 2, True, (4, 0)),
        (1, 1, True, (2, 0.25)), (4, 4, True, (8, 4)),
    ]:  # fmt: skip
        reserved = list_resources(arm(gpus, ranks), cpus=2, per_gpu=4, has_gpus=has_gpus)
        assert (reserved["num_cpus"], reserved["num_gpus"]) == expected


def test_wrong_values_for_ray_are_named_before_it_is_started() -> None:
    ray = pytest.importorskip("ray", reason="the extra ray, which make test installs")
    from asr_ablations.sweep.cluster import Cluster

    valid: dict[str, Any] = {"address": "auto", "jobs": None, "per_gpu": 1, "cpus": 1, "retries": 3}
    for key, value in {"cpus": 0, "retries": -1, "jobs": 0, "per_gpu": 0}.items():
        with pytest.raises(UsageError, match=rf"hydra\.launcher\.{key}={value}: expected"):
            Cluster(SCRIPT, [arm(0)], **{**valid, key: value})
    assert not ray.is_initialized()


@pytest.mark.slow
def test_an_arm_on_ray_that_loses_its_worker_is_started_again(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray, which make test installs")
    (tmp_path / "train.py").write_text(
        "import os, time\n\ndef main(cfg):\n    with open('started', 'a') as file:\n"
        "        print(os.getpid(), file=file)\n"
        "    while len(open('started').readlines()) < 2:\n        time.sleep(0.05)\n"
    )
    (tmp_path / "a.yaml").write_text("overrides: []\n")
    launch = (
        "from pathlib import Path\nfrom asr_ablations.sweep.arm import FrozenArm\n"
        "from asr_ablations.sweep.cluster import Cluster\nfrom asr_ablations.sweep.runner import Runner\n"
        "arm = FrozenArm('a', 'a', Path('a.yaml'), Path('a').absolute(), 0, 1, ())\n"
        "places = Cluster(Path('train.py'), [arm], address=None, jobs=1, per_gpu=1, cpus=1, retries=1)\n"
        "print(Runner([arm], places, timeout=None, fail_fast=False).run(lambda states: None)[0].status)\n"
    )
    (tmp_path / "launch.py").write_text(launch)
    started = tmp_path / "started"
    with start(["launch.py"], {**os.environ, "PYTHONPATH": str(SOURCE)}, tmp_path, fresh=True) as command:
        wait_for(lambda: (started.exists() and started.read_text()) or command.poll() is not None)
        arm = psutil.Process(int(started.read_text()))
        arm.parent().kill()
        done = command.finish()
    assert DONE in done.stdout.splitlines(), done.stdout + done.stderr  # Ray prints lines of its own
    assert len({*started.read_text().split()}) == 2
    wait_for(lambda: not arm.is_running())


def finished(folder: Path, exit_code: int, *, kill_reason: str | None = None, recorded: str = "") -> State:
    """The state of an arm whose process ended so. recorded: the reason in the failed run's status, if it wrote one."""
    status = {"status": FAILED, "reason": recorded} if recorded else {"status": "running"}
    (folder / "status.json").write_text(json.dumps({**status, "pid": 1}))
    state = State(FrozenArm("a", "1", folder / "a.yaml", folder, None, 1, ()))
    state.finish(exit_code, kill_reason)
    return state


@pytest.mark.parametrize(
    ("exit_code", "recorded", "status", "reason"),
    [
        (0, "", DONE, ""),
        (LEASE_HELD_EXIT_CODE, "", ELSEWHERE, "another launcher is running it"),
        (128 + signal.SIGINT, "", STOPPED, "stopped; it can be continued"),
        (1, "interrupted: SIGTERM", STOPPED, "stopped; it can be continued"),  # torchrun's exit code is its own
        (1, "RuntimeError: no space left on device", FAILED, "RuntimeError: no space left on device"),
    ],
)
def test_an_arm_that_reports_its_end(tmp_path: Path, exit_code: int, recorded: str, status: str, reason: str) -> None:
    state = finished(tmp_path, exit_code, recorded=recorded)
    assert (state.status, state.reason) == (status, reason)


@pytest.mark.parametrize(
    ("exit_code", "kill_reason", "reason"),
    [
        (-signal.SIGKILL, "timeout: longer than it may take", "timeout: longer than it may take"),
        (-signal.SIGKILL, None, "killed by SIGKILL, which also ends a process that takes too much memory"),
        (128 + signal.SIGSEGV, None, "killed by SIGSEGV"),
        (3, None, "exit code 3"),
    ],
)
def test_an_arm_that_dies_without_a_message_is_recorded_as_failed(
    tmp_path: Path, exit_code: int, kill_reason: str | None, reason: str
) -> None:
    state = finished(tmp_path, exit_code, kill_reason=kill_reason)
    assert (state.status, state.reason) == (FAILED, reason)
    recorded = json.loads((tmp_path / "status.json").read_text())
    assert recorded == {"status": FAILED, "reason": reason, "pid": 1}
    # on a cluster, whose machines the command does not know, the log says it, after that of an earlier attempt
    message = "gpus=1: this machine has 0 GPUs; expected auto, or at most 0"
    (tmp_path / "output.log").write_text(f"error: an earlier one\nstarts a\nerror: {message}\n")
    assert finished(tmp_path, 2).reason == message


@pytest.mark.parametrize("exit_code", [1, 0])
def test_an_arm_that_diverged_has_a_result_whatever_its_exit_code(exit_code: int, tmp_path: Path) -> None:
    """One process exits with 1; ranks under torchrun with 0, so that it prints no page of theirs."""
    reason = "diverged at step 7: the loss is nan"
    (tmp_path / "status.json").write_text(json.dumps({"status": FAILED, "reason": reason, "diverged": 7}))
    state = State(FrozenArm("a", "1", tmp_path / "a.yaml", tmp_path, None, 1, ()))
    state.finish(exit_code, None)
    assert (state.status, state.reason, state.ended) == (DIVERGED, reason, True)


class TimedProcess:
    """Ends after so many looks at it, each of which takes a second of its arm, or when it is stopped or killed."""

    begun, failure, place = True, None, ""

    def __init__(self, looks: int, exit_code: int) -> None:
        self.looks, self.end, self.seconds = looks, exit_code, 0.0
        self.asked: list[str] = []

    def exit_code(self) -> int | None:
        self.seconds += 1
        if self.asked:
            return -signal.SIGKILL if "kill" in self.asked else 128 + signal.SIGTERM
        return self.end if self.seconds >= self.looks else None

    def stop(self) -> None:
        self.asked.append("stop")

    def kill(self) -> None:
        self.asked.append("kill")


def run_timed(
    folder: Path, *processes: TimedProcess, places: int = 9, timeout: float | None = None, fail_fast: bool = False
) -> list[tuple[str, str]]:
    """Status and reason of an arm of each process, where there are so many places. They are looked at often."""
    running: list[FrozenArm] = []
    left = iter(processes)

    class Places:
        detach, free = False, running.remove

        def start(self, arm: FrozenArm) -> TimedProcess | None:
            return None if len(running) == places else running.append(arm) or next(left)

        def left(self) -> None: ...

    arms = [
        FrozenArm(str(number), str(number), folder, folder / str(number), 0, 1, ()) for number in range(len(processes))
    ]
    for arm in arms:
        arm.folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asr_ablations.sweep.runner.POLL", 0.001)
        states = Runner(arms, Places(), timeout=timeout, fail_fast=fail_fast).run(lambda states: None)
    return [(state.status, state.reason) for state in states]


def test_an_arm_that_takes_too_long_is_killed_and_the_others_go_on(tmp_path: Path) -> None:
    hanging = TimedProcess(10**9, 0)
    ended = run_timed(tmp_path, TimedProcess(3, 0), hanging, TimedProcess(3, 0), places=1, timeout=0.1)
    reason = "timeout: longer than hydra.launcher.timeout=0.1 minutes"
    assert ended == [(DONE, ""), (FAILED, reason), (DONE, "")]
    assert 6 < hanging.seconds <= 8


def test_the_first_failure_can_end_the_sweep(tmp_path: Path) -> None:
    """It stops what runs, and starts no more."""
    processes = [TimedProcess(2, 3), TimedProcess(10**9, 0), TimedProcess(2, 0)]
    ended = run_timed(tmp_path, *processes, places=2, fail_fast=True)
    assert [status for status, _ in ended] == [FAILED, STOPPED, STOPPED]
    assert (processes[1].asked[0], processes[2].seconds) == ("stop", 0)
    for folder in tmp_path.iterdir():
        shutil.rmtree(folder)
    ended = run_timed(tmp_path, TimedProcess(2, 3), TimedProcess(5, 0), TimedProcess(2, 0), places=2)
    assert [status for status, _ in ended] == [FAILED, DONE, DONE]


def test_a_sweep_that_is_stopped_waits_for_no_other_launcher(tmp_path: Path) -> None:
    """Ctrl-C comes while the arm runs; it ends as one that finds its run in work elsewhere."""

    class Interrupted(TimedProcess):
        def exit_code(self) -> int | None:
            self.seconds += 1
            if self.seconds >= 2:
                return LEASE_HELD_EXIT_CODE
            os.kill(os.getpid(), signal.SIGINT)
            return None

    assert run_timed(tmp_path, Interrupted(2, 0)) == [(STOPPED, "another launcher is running it")]
