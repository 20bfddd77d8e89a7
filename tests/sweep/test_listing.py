"""A list of arms becomes runs: what it may hold, and what is refused before the first run."""

from typing import Any

import pytest

from asr_ablations.runs.listed_arms import check_arm, merged, name_in, read_arms
from asr_ablations.sweep.arm import each_arm_of
from asr_ablations.sweep.live import what_varies
from asr_ablations.tools.errors import UsageError
from tests.helpers.support import compose

CLASSIC: list[Any] = [{}, {"norm": "none"}, {"name": "wide GRU", "rnn": "gru", "width": 256}]


def runs_of(arms: str, *batch: list[str]) -> list[list[str]]:
    return each_arm_of([[f"arms={arms}", *words] for words in batch], lambda words: compose(*words, "overrides=[]"))


def test_every_combination_meets_every_arm_and_an_arm_has_the_last_word() -> None:
    arms = "[{},{dropout:0},{name:small GRU,rnn:gru,batch:{size:4}}]"
    batch = [["dropout=0.2", "seed=0"], ["dropout=0.2", "seed=1"]]
    listed = f"arms={arms}"
    assert runs_of(arms, *batch) == [
        words
        for seed in ("seed=0", "seed=1")
        for words in (
            [listed, "dropout=0.2", seed, "arm=full"],
            [listed, seed, "arm='dropout=0'", "dropout=0"],
            [listed, "dropout=0.2", seed, "arm='small GRU'", "rnn=gru", "batch.size=4"],
        )
    ]


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ("[{},{nrom:none}]", "^arm nrom=none: nrom: there is no such key; nearest: norm$"),
        ("[{},{optimizer.lrr:1}]", "^arm optimizer.lrr=1: optimizer.lrr: there is no such key; nearest: optimizer.lr,"),
        ("[{},{dropout:0.1}]", "full and dropout=0.1 are the same experiment"),
        ("[{},{rnn:gru},{name:again,rnn:gru}]", "rnn=gru and again change the same"),
        ("[{name:a,rnn:gru},{name:a,rnn:rnn}]", "two arms have the name a"),
        ("[{},{seed:1}]", r"seed: no arm is made by it; expected it in hydra\.sweeper\.params"),
        ("[{},{outputs:here}]", "outputs: no arm is made by it"),
        ("[{},rnn]", "arms: rnn: expected the keys that the arm changes"),
        ("[{}]", "two arms or more"),
        ("full", "arms=full: expected a list"),
        ("[{},{width:'${layers}'}]", "no reference to another key"),
    ],
)
def test_what_is_no_list_of_arms_is_one_line(arms: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        runs_of(arms, ["seed=0"])


def test_a_key_is_varied_by_the_list_or_beside_it() -> None:
    with pytest.raises(UsageError, match="norm is varied beside the list too"):
        runs_of("[{},{norm:layer}]", ["norm=batch"], ["norm=none"])


def test_values_are_typed_as_hydra_reads_them() -> None:
    """What is read back is what was listed: texts that look like something else among them."""
    values = [None, True, 0.5, 3, "null", "a b", "it's", "1e-3", "a/b.c", [1, "x, y"], []]
    for value in values:
        (_, arm) = read_arms([{}, {"data.root": value}])
        word = arm.overrides[1]
        assert compose("data=an4", word, "overrides=[]").data.root == value


def test_arms_are_named_by_what_they_change() -> None:
    assert [arm.name for arm in read_arms(CLASSIC)] == ["full", "norm=none", "wide GRU"]
    assert name_in(read_arms([{}, {"name": "it's \\ this", "width": 8}])[1].overrides) == "it's \\ this"
    words = [[*arm.overrides, f"seed={seed}", "precision=16"] for seed in (0, 1) for arm in read_arms(CLASSIC)]
    named = what_varies(words)
    assert named[:3] == ["full seed=0", "norm=none seed=0", "wide GRU seed=0"]


def test_a_list_may_grow_and_not_change() -> None:
    assert [arm.name for arm in merged([CLASSIC[:2], CLASSIC])] == ["full", "norm=none", "wide GRU"]
    with pytest.raises(UsageError, match="wide GRU stands for different changes in these runs: rnn=gru width=256 and"):
        merged([CLASSIC, [{}, {"name": "wide GRU", "width": 256}]])


def test_a_run_beside_a_list_is_one_of_its_arms() -> None:
    check_arm({"arms": None})
    check_arm({"arms": CLASSIC, "arm": "full"})
    for arm in (None, "small"):
        with pytest.raises(UsageError, match=r"a list of arms \(full, norm=none, wide GRU\) is for a sweep with -m"):
            check_arm({"arms": CLASSIC, "arm": arm})
