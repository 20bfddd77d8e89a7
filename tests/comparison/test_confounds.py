"""What may differ between arms, which comparisons are refused, and arms that change more than their names say."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from asr_ablations.comparison.arm_differences import ArmDifference, arm_differences
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.report.training_report import sections
from asr_ablations.runs.identity import derived_keys
from asr_ablations.runs.listed_arms import read_arms
from asr_ablations.sweep.preflight import check_declarations, print_differences
from asr_ablations.tools.typed_json import parse
from asr_verdicts.comparison import Comparison, compare
from asr_verdicts.config import MACHINE_KEYS
from asr_verdicts.confounds import ConfoundedError, confounds, derived, differing, references
from asr_verdicts.declaration import declaration
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from asr_verdicts.record import DataRecord, Environment, Record, Records, SetResult, Summary
from tests.helpers.run_folders import write_sweep
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


GRADIENT = {"question": "Which treatment?", "factor": "gradient", "baseline": "none"}
NOISE = "noise: gradient Noise for ClipNorm, gradient.limit 1.0 for null, gradient.variance 1e-06 for none, "


def of_choices(group: str, *names: str) -> dict[str, ArmDifference]:
    """The differences to the first of these options of a group."""
    configs = {name: OmegaConf.to_container(compose(f"{group}={name}"), resolve=True) for name in names}
    return {difference.arm: difference for difference in arm_differences(configs, names[0], [group], {})}  # type: ignore[arg-type]


def test_the_arm_with_noise_clips_and_the_clipped_arm_is_its_baseline() -> None:
    found = of_choices("gradient", "none", "norm", "noise", "constraint", "outliers")
    assert found["noise"].text.startswith(NOISE)
    assert found["noise"].unsaid == ["gradient.limit"]
    assert {arm: difference.better for arm, difference in found.items()} == {
        "norm": [], "noise": ["norm"], "constraint": ["norm"], "outliers": ["norm"]
    }  # fmt: skip
    assert found["norm"].unsaid == []  # its one key is what it is named for
    against_norm = of_choices("gradient", "norm", "none", "noise", "constraint", "outliers")
    assert all(not difference.unsaid and not difference.better for difference in against_norm.values())


def test_a_rate_that_comes_with_an_optimizer_is_not_in_its_name() -> None:
    found = of_choices("optimizer", "sgd", "momentum", "nesterov", "adam", "adamw")
    assert {arm: difference.unsaid for arm, difference in found.items()} == {
        "momentum": ["optimizer.lr"], "nesterov": ["optimizer.lr"], "adam": ["optimizer.lr"],
        "adamw": ["optimizer.lr", "optimizer.weight_decay"],
    }  # fmt: skip
    assert (found["nesterov"].better, found["adamw"].better) == (["momentum"], ["adam"])
    norms = of_choices("norm", "batch_convolutions", "layer", "none")
    assert [difference.better for difference in norms.values()] == [[], []]  # who lacks what another lacks


def test_the_comparison_lists_the_keys_and_proposes_the_baseline(tmp_path: Path) -> None:
    rates = {"gradient=none": 0.1, "gradient=norm": 0.2, "gradient=noise": 0.3}
    comparison = compare_folders([write_sweep(tmp_path, rates, seeds=2, ablation=GRADIENT)], Options())
    (lines,) = [section.lines for section in sections(comparison) if section.heading == "Keys that differ"]
    assert "gradient=norm: gradient.limit 1.0 for null" in lines
    assert any(line.startswith(f"gradient={NOISE}") for line in lines)
    (proposal,) = [line for line in comparison.warnings if "To measure only these, compare it with" in line]
    assert proposal.startswith("gradient=noise differs from gradient=none in every key that gradient=norm changes, and")
    assert proposal.endswith("compare it with gradient=norm (ablation.baseline: gradient=norm)")


def test_a_name_that_a_list_gives_says_its_only_key_and_those_that_stand_in_it() -> None:
    arms = [{"name": "base"}, {"name": "slow", "lr": 1}, {"name": "both", "lr": 1, "width": 2}, {"lr": 2, "width": 2}]
    configs = {arm.name: {"lr": 0, "width": 0, "arms": arms, "arm": arm.name, **arm.changes} for arm in read_arms(arms)}
    differences = arm_differences(configs, "base", [], {})
    assert [difference.unsaid for difference in differences] == [[], ["lr", "width"], []]


def test_what_is_wrong_with_a_declaration_is_said_before_the_first_arm(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, nearest in (("rnnn", "rnn"), (r"optimizer\.lrr", r"optimizer\.lr")):
        plain = wrong.replace("\\", "")
        configs = [compose(f"rnn={name}", f"ablation={{factor: {plain}}}") for name in ("lstm", "gru")]
        message = rf"ablation\.factor={wrong}: there is no such key; nearest: {nearest}"
        with pytest.raises(UsageError, match=message):
            check_declarations(configs)
    print_differences([compose(f"batch.size={size}", "ablation={baseline: 16, factor: batch.size}") for size in (4, 8)])
    expected = "expected batch.size=4 or batch.size=8: `compare` will need --baseline"
    assert capsys.readouterr().out == f"warning: ablation.baseline=16: {expected}\n"
    print_differences([compose(f"rnn={name}", "ablation={factor: dropout}") for name in ("lstm", "gru")])
    assert "warning: ablation.factor=dropout: the arms also differ in rnn._target_" in capsys.readouterr().out
