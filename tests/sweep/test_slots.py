"""GPUs and cores that arms get."""

import pytest

from asr_ablations.sweep.slots import Slots, machine_slots, share_of_cores, visible_gpus
from asr_ablations.tools.errors import UsageError


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


def test_defaults_follow_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-1f, 5")
    assert visible_gpus() == ["3", "GPU-1f", "5"]
    assert machine_slots(None, 2).jobs == 6
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert visible_gpus() == []
    assert machine_slots(None, 2).jobs == 1


@pytest.mark.parametrize(("jobs", "per_gpu"), [(0, 1), (None, 0), (True, 1), (1.5, 1), ("all", 1)])
def test_wrong_values_are_named(jobs: int, per_gpu: int) -> None:
    with pytest.raises(UsageError, match=r"hydra\.launcher\.(jobs|per_gpu)="):
        machine_slots(jobs, per_gpu)


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(8))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [share_of_cores(jobs) for jobs in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert share_of_cores(1) == 2
