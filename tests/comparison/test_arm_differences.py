"""An arm that changes more than its name says is named, with a better baseline; no published row hides such a key."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from asr_ablations.comparison.arm_differences import ArmDifference, arm_differences
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.report.training_report import sections
from asr_ablations.runs.listed_arms import read_arms
from asr_ablations.sweep.preflight import check_declarations, print_differences
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from tests.helpers.run_folders import write_sweep
from tests.helpers.support import compose

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
