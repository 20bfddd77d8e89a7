"""What may differ between arms, and which comparisons are refused."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from asr_ablations.runs.identity import derived_keys
from asr_ablations.tools.typed_json import parse
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.config import MACHINE_KEYS
from asr_verdicts.confounds import ConfoundedError, confounds, derived, differing, references
from asr_verdicts.declaration import declaration
from asr_verdicts.design import Options
from asr_verdicts.record import DataRecord, Environment, Record, Records, SetResult, Summary
from tests.helpers.support import compose, group_options, groups

DATA = {"sets": {name: {"utterances": 3, "sha256": name} for name in ("train", "dev", "test")}}


def record(
    *overrides: str, data: dict[str, Any] = DATA, ablation: dict[str, Any] | None = None, **environment: Any
) -> Record:
    cfg = compose("data=an4", "data.root=x", *overrides)
    cfg.overrides = list(overrides)
    OmegaConf.update(cfg, "ablation", ablation, force_add=True)
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    return Record(
        folder=Path("-".join(overrides) or "default"), config=config, overrides=list(overrides),
        summary=Summary(sets={"test": SetResult(wer=0.2, cer=0.1)}, test_sets=["test"]),
        environment=replace(Environment(derived=derived_keys(config)), **environment), data=parse(DataRecord, data),
    )  # fmt: skip


def refused(runs: list[Record]) -> dict[str, list[Any]]:
    with pytest.raises(ConfoundedError) as caught:
        compared(runs)
    return caught.value.keys


def compared(runs: list[Record], *allow: str) -> Comparison:
    return compare(Records(runs), Options(allow=list(allow)), "test")


RNN = {"factor": "rnn"}


def test_a_planted_confound_is_refused_with_its_key_and_values() -> None:
    runs = [record("rnn=gru", ablation=RNN), record("rnn=lstm", "batch.size=4", ablation=RNN)]
    assert refused(runs) == {"batch.size": [8, 4]}
    with pytest.raises(ConfoundedError, match="--allow KEY") as caught:
        compared(runs)
    assert "  batch.size: 8, 4" in str(caught.value).splitlines()
    comparison = compared(runs, "batch.size")
    assert list(comparison.design.layout.overruled) == ["batch.size"]
    assert any("--allow" in line and "batch.size (8, 4)" in line for line in comparison.warnings)
    assert [arm.name for arm in comparison.arms] == ["rnn=gru, batch.size=8", "rnn=lstm, batch.size=4"]
    # A seed of an arm ran with another batch size, so it is no replicate
    runs = [
        record("rnn=gru", "seed=0", ablation=RNN),
        record("rnn=gru", "seed=1", "batch.size=4", ablation=RNN),
        record("rnn=lstm", "seed=0", ablation=RNN),
    ]
    assert list(refused(runs)) == ["batch.size"]


def test_two_factors_of_one_sweep_are_refused_with_the_words_that_declare_them() -> None:
    hint = r"add 'ablation=\{factor: \[dropout,norm\]\}' to the sweep's command"
    grid = [record("dropout=0.1", "norm=none", "sweep=s"), record("dropout=0.2", "norm=batch", "sweep=s")]
    with pytest.raises(ConfoundedError, match=hint):
        compared(grid)
    apart = [grid[0], record("dropout=0.2", "norm=batch", "sweep=single")]
    with pytest.raises(ConfoundedError) as caught:
        compared(apart)
    assert "ablation={" not in str(caught.value)


def test_features_that_a_model_chooses_follow_from_it() -> None:
    """model=wav2vec2 reads samples, so features.bins and the others have no place in its run."""
    runs = [record(f"model={name}", "augment=none", ablation={"factor": "model"}) for name in ("tiny", "wav2vec2")]
    assert compared(runs).design.layout.factor == ["model"]
    others = [record(f"features={name}", ablation={"factor": "model"}) for name in ("logmel", "logmel40")]
    assert refused(others) == {"features.bins": [80, 40]}


def test_the_behaviour_is_never_taken_for_a_factor_nor_are_other_data() -> None:
    """Two runs of the same config before and after a change of the code: refused, unless --allow names it."""
    runs = [record("seed=0"), record("seed=1", behaviour=2)]
    assert refused(runs) == {"behaviour": [1, 2]}
    assert [arm.name for arm in compared(runs, "behaviour").arms] == ["behaviour=1", "behaviour=2"]
    same = [record("rnn=gru", behaviour=2), record("rnn=lstm", behaviour=2)]
    assert compared(same).design.layout.factor == ["rnn"]
    assert set(refused([record("rnn=gru"), record("rnn=lstm", behaviour=3)])) == {"behaviour"}
    other = copy.deepcopy(DATA)
    other["sets"]["train"]["sha256"] = "other"
    runs = [record("rnn=gru", ablation=RNN), record("rnn=lstm", data=other, ablation=RNN)]
    assert list(refused(runs)) == ["data.json.train"]
    assert compared(runs, "data.json").warnings
    factor = {"factor": "data.held_out"}
    mine = [record("data.held_out=7", ablation=factor), record("data.held_out=3", data=other, ablation=factor)]
    assert [arm.name for arm in compared(mine).arms] == ["data.held_out=7", "data.held_out=3"]


def test_what_conf_computes_from_a_key_and_the_place_of_the_data_are_no_difference() -> None:
    first, second = record("seed=0"), record("seed=1", "workers=2", "logger=csv", "progress=false", "sweep=other")
    second.config["data"]["root"] = "/elsewhere"
    second.config["hardware"]["price_per_hour"] = 3.0
    assert differing([first, second]) == {}
    recorded = references([record()])
    assert derived(["width"], recorded) == {"model.width"}
    assert {"width", "layers"} <= derived(["model"], recorded)
    assert "alphabet.characters" in derived(["data.language"], recorded)
    assert derived(["rnn"], recorded) == set()


@pytest.mark.parametrize("group", [g for g in groups() if g not in (*MACHINE_KEYS, "data", "decoder")])
def test_any_group_can_be_the_factor_and_needs_no_declaration(group: str) -> None:
    """Also model, whose files set width and layers beside it."""
    options = [name for name in group_options(group) if name != "language"]  # which is the same as another alphabet
    runs = [record(f"{group}={name}") for name in options]
    comparison = compared(runs)
    assert comparison.design.layout.factor == ([group] if len(options) > 1 else [])
    assert len(comparison.arms) == len(options)
    assert len({arm.name for arm in comparison.arms}) == len(options)


def test_two_factors_may_be_declared() -> None:
    both = {"factor": ["rnn", "precision"]}
    runs = [record(f"rnn={r}", f"precision={p}", ablation=both) for r in ("gru", "lstm") for p in (32, 16)]
    assert confounds(runs, declaration(runs).factor, differing(runs)) == {}
    assert [arm.name for arm in compared(runs).arms] == [
        "rnn=gru, precision=32", "rnn=gru, precision=16", "rnn=lstm, precision=32", "rnn=lstm, precision=16",
    ]  # fmt: skip
