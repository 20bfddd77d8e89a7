"""Where arms run: what this machine and Ray give them."""

from pathlib import Path
from typing import Any

import pytest

from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.executors import Machine
from asr_ablations.sweep.gpu_slots import Slots
from asr_ablations.tools.errors import UsageError

SCRIPT = Path("train.py")


def arm(gpus: int | None, ranks: int = 1) -> FrozenArm:
    return FrozenArm("a", "a", Path("a.yaml"), Path("a"), gpus, ranks, ())


def test_an_arm_that_no_place_of_this_machine_fits_is_named() -> None:
    with pytest.raises(UsageError, match="arm a: gpus=3, this machine has 2"):
        Machine(SCRIPT, [arm(1), arm(3)], Slots(["0", "1"], jobs=2, per_gpu=1))
    with pytest.raises(UsageError, match="arm a: ranks=3, this machine has 2 GPUs; expected gpus=0"):
        Machine(SCRIPT, [arm(None, ranks=3)], Slots(["0", "1"], jobs=2, per_gpu=1))
    Machine(SCRIPT, [arm(None, ranks=3), arm(0, ranks=3)], Slots([], jobs=2, per_gpu=1))


@pytest.mark.parametrize(
    ("gpus", "ranks", "has_gpus", "expected"),
    [
        (None, 1, False, (2, 0)),
        (None, 1, True, (2, 0.25)),
        (None, 2, True, (4, 2)),
        (0, 2, True, (4, 0)),
        (1, 1, True, (2, 0.25)),
        (4, 4, True, (8, 4)),
    ],
)
def test_ray_reserves_cpus_of_each_rank_and_gpus_or_a_share_of_one(
    gpus: int | None, ranks: int, has_gpus: bool, expected: tuple[float, float]
) -> None:
    """Four arms of one GPU share it."""
    pytest.importorskip("ray", reason="the extra ray, which make test installs")
    from asr_ablations.sweep.cluster import needed

    reserved = needed(arm(gpus, ranks), cpus=2, per_gpu=4, has_gpus=has_gpus)
    assert (reserved["num_cpus"], reserved["num_gpus"]) == expected


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"cpus": 0}, r"hydra\.launcher\.cpus=0: expected a whole number, 1 or more"),
        ({"cpus": 0.5}, r"hydra\.launcher\.cpus=0\.5: expected"),
        ({"retries": -1}, r"hydra\.launcher\.retries=-1: expected a whole number, 0 or more"),
        ({"jobs": 0}, r"hydra\.launcher\.jobs=0: expected"),
        ({"per_gpu": 0}, r"hydra\.launcher\.per_gpu=0: expected"),
    ],
)
def test_wrong_values_for_ray_are_named_before_it_is_started(option: dict[str, Any], message: str) -> None:
    ray = pytest.importorskip("ray", reason="the extra ray, which make test installs")
    from asr_ablations.sweep.cluster import Cluster

    valid: dict[str, Any] = {"address": "auto", "jobs": None, "per_gpu": 1, "cpus": 1, "retries": 3}
    with pytest.raises(UsageError, match=message):
        Cluster(SCRIPT, [arm(0)], **{**valid, **option})
    assert not ray.is_initialized()
