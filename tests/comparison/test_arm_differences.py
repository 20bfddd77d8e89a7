"""An arm that changes more than its name says is named, with a better baseline; no published row hides such a key."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from asr_ablations.comparison.arm_differences import ArmDifference, arm_differences, keys_text
from asr_ablations.comparison.folders import compare_folders
from asr_ablations.report.training_report import sections
from asr_ablations.runs.listed_arms import read_arms
from asr_ablations.runs.reader import read_config
from asr_ablations.sweep.preflight import check_declarations, find_differences, format_differences, print_differences
from asr_verdicts.config import flatten
from asr_verdicts.confounds import MISSING
from asr_verdicts.design import Options
from asr_verdicts.errors import UsageError
from publish.archive import ENDING, unpack
from publish.results import in_table
from tests.helpers.run_folders import write_sweep
from tests.helpers.support import REPOSITORY, compose
from tests.helpers.sweep_files import NAMES, arms, composed, is_decoding, is_search

GRADIENT = {"question": "Which treatment?", "factor": "gradient", "baseline": "none"}
NOISE = "noise: gradient Noise for ClipNorm, gradient.limit 1.0 for null, gradient.variance 1e-06 for none, "


def by_name(differences: list[ArmDifference]) -> dict[str, ArmDifference]:
    return {difference.arm: difference for difference in differences}


def of_choices(group: str, *names: str) -> dict[str, ArmDifference]:
    """The differences to the first of these options of a group."""
    configs = {name: OmegaConf.to_container(compose(f"{group}={name}"), resolve=True) for name in names}
    return by_name(arm_differences(configs, names[0], [group], {}))  # type: ignore[arg-type]


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


def test_a_choice_that_lacks_what_another_lacks_contains_nothing_of_it() -> None:
    found = of_choices("norm", "batch_convolutions", "layer", "none")
    assert [difference.better for difference in found.values()] == [[], []]


def test_a_class_of_ones_own_is_named_and_its_source_only_where_the_name_is_equal() -> None:
    mine = {"rnn._target_": ("variants.rnn.mine.Mine", "torch.nn.GRU"), "rnn._source_": ("9" * 64, MISSING)}
    assert keys_text(mine) == "rnn Mine for GRU"
    assert keys_text({"rnn._source_": ("9" * 64, "a" * 64)}) == "source of rnn 99999999 for aaaaaaaa"


def test_a_choice_that_is_null_on_one_side_is_shown_by_its_class() -> None:
    penalty = {
        "penalty": (MISSING, None),
        "penalty._target_": ("a.SquaredNorm", MISSING),
        "penalty.scale": (1, MISSING),
    }
    assert keys_text(penalty) == "penalty SquaredNorm for none, penalty.scale 1 for none"
    assert keys_text({"gradient.limit": (None, 1.0)}) == "gradient.limit null for 1.0"


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


def test_a_sweep_says_so_before_it_runs() -> None:
    configs = [compose(f"gradient={name}", f"seed={seed}") for name in ("none", "norm", "noise") for seed in (0, 1)]
    for cfg, name in zip(configs, ("none", "none", "norm", "norm", "noise", "noise"), strict=True):
        cfg.overrides = [f"gradient={name}"]
    lines = format_differences(find_differences(configs))
    assert lines[0] == "gradient=norm: gradient.limit 1.0 for null"
    assert lines[1].startswith(f"gradient={NOISE}")
    assert lines[2].startswith("warning: gradient=noise differs from gradient=none in every key that gradient=norm")
    assert len(lines) == 3


FREE = {
    "features": ["features=logmel40"],  # the source has features with cepstra, and none without
    "optimizer": ["optimizer=nesterov", "optimizer=adamw"],  # the source's claim is about plain gradient descent
}
"""Arms of a sweep file that keep a baseline although another arm is nearer, with the reason."""


@pytest.mark.parametrize("name", [name for name in NAMES if not is_decoding(name) and not is_search(composed(name))])
def test_no_sweep_file_has_a_worse_baseline_than_it_could(name: str) -> None:
    configs = []
    for words in arms(composed(name)):
        cfg = composed(name, *words, "overrides=[]")
        OmegaConf.set_struct(cfg, False)
        del cfg["hydra"]
        cfg.overrides = list(words)
        configs.append(cfg)
    better = [difference.arm for difference in find_differences(configs) if difference.better]
    assert better == FREE.get(name, [])


GROUPS = ("features", "gradient", "init", "norm", "optimizer", "penalty", "pretrain", "rnn", "schedule")
"""The groups whose choices a row names; of every other key the row has the value."""


@pytest.mark.slow
def test_no_published_row_is_of_an_arm_that_differs_in_a_key_that_the_row_does_not_say(tmp_path: Path) -> None:
    """From the records' configs alone: each key that differs is of what was typed, or stands in the row."""
    published = REPOSITORY / "sweeps"
    page = (published / "RESULTS.md").read_text(encoding="utf-8")
    checked = 0
    for sweep in unpack(sorted((published / "records").glob(f"*{ENDING}")), tmp_path):
        comparison = compare_folders([sweep], Options())
        rows = [line for line in page.splitlines() if line.startswith(f"| [{sweep.name}]")]
        by_arm = {arm.name: flatten(read_config(arm.results[0].folder)) for arm in comparison.arms}
        shown = [verdict for verdict in comparison.answer if in_table(verdict)]
        for verdict, row in zip(shown, rows, strict=True):
            question = verdict.question
            if question.kind != "arm":
                continue  # crossed factors: the other one is the same on both sides
            own, base = (by_arm[name] for name in (question.arm, comparison.baseline))
            keys = {key for key in own.keys() | base.keys() if own.get(key) != base.get(key)}
            keys = {key for key in keys if key.split(".")[0] in GROUPS and not key.endswith("_target_")}
            hidden = {key for key in keys if key in own and key in base} if len(keys) > 1 else set()
            assert all(key in row for key in hidden), (row, hidden)
            checked += len(hidden)
    assert checked == 1  # the learning rate of the plain RNN


def test_a_sweep_without_its_declared_baseline_runs_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    configs = [compose(f"batch.size={size}", "ablation={baseline: 16, factor: batch.size}") for size in (4, 8)]
    print_differences(configs)
    expected = "expected batch.size=4 or batch.size=8: `compare` will need --baseline"
    assert capsys.readouterr().out == f"warning: ablation.baseline=16: {expected}\n"


@pytest.mark.parametrize(
    ("ablation", "message"),
    [
        ("{factor: rnnn}", r"ablation\.factor=rnnn: there is no such key; nearest: rnn"),
        ("{factor: optimizer.lrr}", r"ablation\.factor=optimizer\.lrr: there is no such key; nearest: optimizer\.lr"),
    ],
)
def test_a_misspelt_name_in_a_question_is_refused_before_the_first_arm(ablation: str, message: str) -> None:
    configs = [compose(f"rnn={name}", f"ablation={ablation}") for name in ("lstm", "gru")]
    with pytest.raises(UsageError, match=message):
        check_declarations(configs)


def test_arms_that_differ_in_more_than_the_declared_factor_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    print_differences([compose(f"rnn={name}", "ablation={factor: dropout}") for name in ("lstm", "gru")])
    assert "warning: ablation.factor=dropout: the arms also differ in rnn._target_" in capsys.readouterr().out
