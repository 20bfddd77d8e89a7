"""The name of an arm, and which arm a user means by a name."""

from dataclasses import replace
from pathlib import Path

from asr_ablations.runs.sweep_history import read_plan
from asr_verdicts.arms import by_arm, find_arm, name_of
from asr_verdicts.files import write_json
from asr_verdicts.plan import PlannedArm
from tests.helpers.planned import plan

NORMS = [{"norm": norm, "batch.size": size} for norm, size in (("none", "8"), ("batch", "8"), ("layer", "16"))]


def arms(choices: list[dict[str, str]]) -> list[PlannedArm]:
    return [PlannedArm(levels, [], {}) for levels in choices]


def test_an_arm_is_named_by_its_keys_and_found_by_either_spelling() -> None:
    assert name_of({"order": "shuffled", "norm": "none"}) == "order=shuffled, norm=none"
    assert name_of({"arm": "no batch norm"}) == "no batch norm"
    assert (name_of({"system": "mine"}), name_of({})) == ("mine", "all")
    crossed = [{"order": order, "norm": norm} for order in ("shuffled", "sortagrad") for norm in ("none", "batch")]
    lists = [{"data.train": "[clean100, clean360]"}, {"data.train": "[clean100]"}]
    cases: list[tuple[list[dict[str, str]], str, str | None]] = [
        (NORMS, "none", "norm=none, batch.size=8"), (NORMS, "norm=none", "norm=none, batch.size=8"),
        (NORMS, "norm=none, batch.size=8", "norm=none, batch.size=8"),
        (NORMS, "batch.size=16", "norm=layer, batch.size=16"),
        (NORMS, "8", None),  # two arms have it
        (NORMS, "nones", None), (NORMS, "", None), (crossed, "sortagrad,batch", "order=sortagrad, norm=batch"),
        (crossed, "norm=batch, order=sortagrad", "order=sortagrad, norm=batch"), (crossed, "sortagrad", None),
        (lists, "[clean100, clean360]", "data.train=[clean100, clean360]"),
    ]  # fmt: skip
    for choices, name, meant in cases:
        found = find_arm(name, arms(choices))
        assert (None if found is None else found.name) == meant


def test_what_is_said_of_arms_is_found_by_their_names() -> None:
    said = {"none": 1, "norm=layer": 2, "Kaldi": 3}
    assert by_arm(said, arms(NORMS)) == {"norm=none, batch.size=8": 1, "norm=layer, batch.size=16": 2, "Kaldi": 3}


def test_a_plan_may_name_its_arms_by_their_choices_alone(tmp_path: Path) -> None:
    whole = plan(["lstm", "gru"])
    short = {**whole.as_json(), "baseline": "lstm", "contrasts": ["gru"]}
    write_json(tmp_path / "sweep.json", {"plan": short})
    assert read_plan(tmp_path) == whole
    assert replace(whole, baseline="lstm") != whole
