"""The state of a training beside weights and optimizer: a fit resumed from a checkpoint equals the unbroken one."""

from pathlib import Path

import pytest

from tests.helpers.fits import fit, model_of, same
from tests.helpers.support import group_options

STATEFUL = [
    *(
        f"{group}={name}"
        for group in ("averaging", "gradient", "pretrain", "schedule")
        for name in group_options(group)
    ),
    "batch.accumulate=2",
]


@pytest.mark.parametrize("override", STATEFUL)
def test_a_resumed_fit_is_the_unbroken_one(override: str, tiny_corpus: Path, tmp_path: Path) -> None:
    """Every averaging, treatment of gradients, pretraining and schedule in conf/ resumes bit for bit."""
    # a threshold that one epoch misses: the rate falls before the checkpoint, and after
    more = {"schedule=newbob": ["schedule.threshold=0.9"], "gradient=outliers": ["gradient.warm_up=1"]}.get(
        override, []
    )
    unbroken = fit(tiny_corpus, tmp_path / "whole", override, *more)
    # at the end of the first epoch of three steps, and within the second; of two with two batches each, at the most
    for steps in (2, 3) if "accumulate" in override else (3, 5):
        checkpoint = tmp_path / "whole" / f"step={steps}.ckpt"
        resumed = fit(tiny_corpus, tmp_path / f"from-{steps}", override, *more, resume=checkpoint)
        assert same(dict(resumed.state_dict()), dict(unbroken.state_dict()))
        assert same(model_of(tmp_path / f"from-{steps}", 2), model_of(tmp_path / "whole", 2))
