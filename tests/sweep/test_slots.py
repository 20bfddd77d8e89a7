"""GPUs and cores that arms get."""

from pathlib import Path

import pytest

from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.gpu_slots import Slots, machine_slots, share_of_cores
from asr_ablations.sweep.plan import Cost, memory_warning
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import visible_gpus


def assign(slots: Slots, *needed: int | None) -> list[list[str] | None]:
    """The GPUs that each arm gets, in turn; an arm that gets a place keeps it."""
    assigned = []
    for key, count in enumerate(needed):
        gpus = slots.free_gpus(count)
        if gpus is not None:
            slots.take(key, gpus)
        assigned.append(gpus)
    return assigned


def test_one_arm_per_gpu() -> None:
    assert assign(Slots(["0", "1"], jobs=2, per_gpu=1), 1, None, 1) == [["0"], ["1"], None]


def test_small_arms_share_a_gpu_and_spread_first() -> None:
    assert assign(Slots(["0", "1"], jobs=4, per_gpu=2), 1, 1, 1, 1, 1) == [["0"], ["1"], ["0"], ["1"], None]


def test_an_arm_of_several_gpus_has_them_for_itself() -> None:
    assert assign(Slots(["a", "b", "c"], jobs=9, per_gpu=3), 2, 1, 1, 1, 1) == [["a", "b"], ["c"], ["c"], ["c"], None]
    assert assign(Slots(["a", "b", "c"], jobs=9, per_gpu=3), 1, 3, 2) == [["a"], None, ["b", "c"]]


def test_what_is_given_back_is_handed_out_again() -> None:
    slots = Slots(["0"], jobs=1, per_gpu=1)
    assert assign(slots, 1) == [["0"]]
    assert slots.free_gpus(1) is None
    slots.free(0)
    assert slots.free_gpus(1) == ["0"]


def test_without_gpus_arms_take_places_alone() -> None:
    assert assign(Slots([], jobs=2, per_gpu=1), None, 0, None) == [[], [], None]
    assert Slots([], jobs=1, per_gpu=1).free_gpus(1) is None, "an arm that insists on a GPU never fits"


def test_ranks_that_name_no_gpus_get_one_each_if_available() -> None:
    assert Slots(["0", "1", "2"], jobs=3, per_gpu=1).free_gpus(None, ranks=2) == ["0", "1"]
    assert Slots([], jobs=3, per_gpu=1).free_gpus(None, ranks=2) == []


def arms(*needed: tuple[int | None, int]) -> list[FrozenArm]:
    """Arms of (gpus, ranks)."""
    return [FrozenArm("", "", Path(), Path(), gpus, ranks, ()) for gpus, ranks in needed]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Eight cores with 64 GiB of free memory, without GPUs."""
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(8))
    monkeypatch.setattr("asr_ablations.sweep.gpu_slots.available_memory", lambda: 64 * 2**30)
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
    given = machine_slots(2, 1, arms((None, 1)))
    assert (given.jobs, given.threads(9), given.threads(1)) == (2, 4, 8), "who gives jobs shares out the cores"


@pytest.mark.parametrize(("gibibytes", "jobs"), [(16, 8), (7.9, 3), (1, 1), (None, 8)])
def test_arms_on_a_cpu_are_as_many_as_the_memory_takes(
    machine: pytest.MonkeyPatch, gibibytes: float | None, jobs: int
) -> None:
    free = None if gibibytes is None else int(gibibytes * 2**30)
    machine.setattr("asr_ablations.sweep.gpu_slots.available_memory", lambda: free)
    assert machine_slots(None, 1, arms((0, 1))).jobs == jobs


def test_a_plan_names_what_the_memory_takes() -> None:
    costs = [Cost(1, speech=1.0, seconds=1.0, gpus=0, memory=memory, disk=0) for memory in (2, 5, 4, 3)]
    assert memory_warning(costs, jobs=2, free=9) is None
    assert memory_warning(costs, jobs=3, free=None) is None
    assert "jobs=2" in str(memory_warning(costs, jobs=3, free=11))
    assert "jobs=1" in str(memory_warning(costs, jobs=3, free=1))
    assert memory_warning([Cost(1, speech=1.0, seconds=1.0, gpus=1, memory=99, disk=0)], jobs=3, free=1) is None


@pytest.mark.parametrize(("jobs", "per_gpu"), [(0, 1), (None, 0), (True, 1), (1.5, 1), ("all", 1)])
def test_wrong_values_are_named(jobs: int, per_gpu: int) -> None:
    with pytest.raises(UsageError, match=r"hydra\.launcher\.(jobs|per_gpu)="):
        machine_slots(jobs, per_gpu, [])


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(8))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [share_of_cores(jobs) for jobs in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert share_of_cores(1) == 2
