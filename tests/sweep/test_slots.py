"""GPUs and cores handed out to arms."""

import pytest

from asr_ablations.sweep.slots import Slots, share_of_cores, slots, visible_gpus
from asr_ablations.tools.errors import UsageError


def assign(places: Slots, *wanted: int | None) -> list[list[str] | None]:
    """What each arm gets, in turn; one that gets something keeps it."""
    found = []
    for key, gpus in enumerate(wanted):
        got = places.fits(gpus)
        if got is not None:
            places.take(key, got)
        found.append(got)
    return found


def test_an_arm_a_gpu() -> None:
    assert assign(Slots(["0", "1"], jobs=2, per_gpu=1), 1, None, 1) == [["0"], ["1"], None]


def test_small_arms_share_a_gpu_and_spread_first() -> None:
    assert assign(Slots(["0", "1"], jobs=4, per_gpu=2), 1, 1, 1, 1, 1) == [["0"], ["1"], ["0"], ["1"], None]


def test_an_arm_of_several_gpus_has_them_for_itself() -> None:
    assert assign(Slots(["a", "b", "c"], jobs=9, per_gpu=3), 2, 1, 1, 1, 1) == [["a", "b"], ["c"], ["c"], ["c"], None]
    assert assign(Slots(["a", "b", "c"], jobs=9, per_gpu=3), 1, 3, 2) == [["a"], None, ["b", "c"]]


def test_what_is_given_back_is_handed_out_again() -> None:
    places = Slots(["0"], jobs=1, per_gpu=1)
    assert assign(places, 1) == [["0"]]
    assert places.fits(1) is None
    places.free(0)
    assert places.fits(1) == ["0"]


def test_without_gpus_arms_take_places_alone() -> None:
    assert assign(Slots([], jobs=2, per_gpu=1), None, 0, None) == [[], [], None]
    assert Slots([], jobs=1, per_gpu=1).fits(1) is None, "an arm that insists on a GPU never fits"


def test_ranks_that_name_no_gpus_get_one_each_where_there_are_any() -> None:
    assert Slots(["0", "1", "2"], jobs=3, per_gpu=1).fits(None, ranks=2) == ["0", "1"]
    assert Slots([], jobs=3, per_gpu=1).fits(None, ranks=2) == []


def test_defaults_follow_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-1f, 5")
    assert visible_gpus() == ["3", "GPU-1f", "5"]
    assert slots(None, 2).jobs == 6
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert visible_gpus() == []
    assert slots(None, 2).jobs == 1


@pytest.mark.parametrize(("jobs", "per_gpu"), [(0, 1), (None, 0), (True, 1), (1.5, 1), ("all", 1)])
def test_wrong_values_are_named(jobs: int, per_gpu: int) -> None:
    with pytest.raises(UsageError, match=r"hydra\.launcher\.(jobs|per_gpu)="):
        slots(jobs, per_gpu)


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(8))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [share_of_cores(jobs) for jobs in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert share_of_cores(1) == 2
