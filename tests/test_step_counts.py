"""A step on a GPU, counted without one: so many launches and so much memory traffic, and no more."""

from typing import Any

import pytest

from asr_ablations.components.norm.batch import BatchNorm
from tests.helpers.step_counts import count_step

AUGMENTED = "augment=specaugment"


@pytest.mark.parametrize(("precision", "launches", "gigabytes"), [("32", 285, 45), ("16-master", 320, 35)])
def test_a_step_of_ds2_stays_within_its_launches_and_traffic(precision: str, launches: int, gigabytes: float) -> None:
    """64 utterances of 12.8 s, 161 bins. 16-master copies the weights of each layer, and their gradients."""
    counts = count_step(f"precision={precision}", AUGMENTED)
    assert sum(counts.launches.values()) <= launches, counts.launches
    assert counts.gigabytes <= gigabytes, counts.bytes.most_common(9)


def test_batch_norm_in_plain_operations_would_be_seen(monkeypatch: Any) -> None:
    monkeypatch.setattr(BatchNorm, "fuses", lambda self, x: False)
    counts = count_step()
    assert sum(counts.launches.values()) > 350
    assert counts.gigabytes > 60
