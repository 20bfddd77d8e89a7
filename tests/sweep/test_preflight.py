"""What a sweep file declares is checked before its first run, not by the comparison of its last."""

from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from asr_ablations.sweep.preflight import check_arm, check_declarations
from asr_ablations.tools.errors import UsageError
from tests.helpers.support import compose, tiny_overrides
from tests.helpers.sweep_files import NAMES, composed


@pytest.mark.parametrize(
    ("ablation", "message"),
    [
        ({"facto": "rnn"}, "ablation=facto: expected one of question"),
        ({"metric": "ser"}, "metric=ser: expected wer or cer or cer_longer or loss"),
    ],
)
def test_a_question_that_compare_would_not_understand_is_refused(ablation: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_declarations([DictConfig({"ablation": ablation})])


def test_no_question_and_the_questions_of_the_sweep_files_are_understood() -> None:
    asked = [OmegaConf.create({"ablation": OmegaConf.to_container(composed(name).ablation)}) for name in NAMES[:3]]
    check_declarations([DictConfig({"ablation": None}), *asked])


def test_a_first_arm_that_is_too_large_to_build_leaves_the_sweep_its_data(tiny_corpus: Path) -> None:
    """It fails when it runs, under its own name; the arms after it are checked and trained."""
    configs = [compose(*tiny_overrides(tiny_corpus), f"width={width}", "layers=2") for width in (65_536, 8)]
    large = check_arm(configs[0], {})
    assert large.mistake is None
    assert large == check_arm(configs[1], {})
