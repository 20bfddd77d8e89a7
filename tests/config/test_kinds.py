"""A value of another kind than its class takes, or out of range, is one line that names key, value and choices."""

import pytest

from asr_ablations.components.features.logmel import LogMel
from asr_ablations.config.build import build
from asr_ablations.config.plain_keys import check
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose


@pytest.mark.parametrize("override", ["augment=speed", "augment=specaugment"])
def test_a_list_and_a_number_of_an_augmentation(override: str) -> None:
    key, wrong = ("factors", "fast") if "speed" in override else ("time_share", [1])
    cfg = compose(override)
    cfg.augment[key] = wrong
    with pytest.raises(UsageError, match=f"^augment.{key}="):
        build(cfg.augment)


@pytest.mark.parametrize(
    "override",
    ["optimizer.lr=1", "gradient.limit=null", "data.train=train", "data.test=[a,b]", "schedule.end_divisor=1e4"],
)
def test_what_a_class_may_take_passes(override: str) -> None:
    assert check(compose(override)) is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.corpus_seed=-1", "data.corpus_seed=-1: expected a whole number, 0 or more"),
        ("augment.time_share=2", "augment.time_share=2: expected a number from 0 to 1"),
        ("augment.frequency_masks=-1", "augment.frequency_masks=-1: expected a whole number"),
        ("features.bins=5000", "bins=5000: expected a whole number from 1 to 256"),
        ("features.low=9000", "low=9000"),
        ("features.hop=0", "hop=0: expected seconds from 0.000125 to 1"),
        ("features.hop=0.5", "hop=0.5: expected at most window=0.025"),
    ],
)
def test_values_out_of_range_are_refused_when_they_are_used(override: str, message: str) -> None:
    group = override.partition(".")[0]
    more = ["augment=specaugment"] if group == "augment" else []
    with pytest.raises(UsageError, match=message):
        build(compose(*more, override)[group])


def test_an_alphabet_is_a_text() -> None:
    for characters in ("[a,b]", "null", "3"):
        with pytest.raises(UsageError, match=r"^alphabet\.characters="):
            build(compose(f"alphabet.characters={characters}").alphabet)(None)


def test_the_limits_of_filters_leave_the_usual_ones() -> None:
    assert LogMel(bins=80, window=0.025, hop=0.01, low=20, high=8000).size == 80
    assert LogMel(bins=40, window=0.01, hop=0.01, low=0, high=4000).size == 40
