"""What the arms of a sweep differ in, said before the first one runs: later it would cost the runs."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.comparison.arm_differences import ArmDifference, arm_differences
from asr_ablations.comparison.arms import find_baseline, group
from asr_ablations.comparison.confounds import ConfoundedError, differing, find_factor
from asr_ablations.comparison.declaration import declaration
from asr_ablations.runs.derived_keys import derived_keys
from asr_ablations.runs.listed_arms import LIST, OWN
from asr_ablations.runs.record import NO_SUMMARY, Environment, RunRecord
from asr_ablations.runs.records import Records
from asr_ablations.tools.errors import UsageError


def print_differences(configs: Sequence[DictConfig]) -> None:
    """A line per arm with the keys in which it differs from the baseline, and a better baseline where there is one; or
    a warning that no arm is the declared baseline. The runs serve another comparison, so the sweep is not refused.
    """
    try:
        lines = difference_lines(differences_of(configs))
    except UsageError as error:
        lines = [f"warning: ablation.{error}: `compare` will need --baseline"]
    for line in lines:
        print(line)


def difference_lines(differences: Sequence[ArmDifference]) -> list[str]:
    """The differences in lines, and proposals of another baseline."""
    proposals = [difference.proposal for difference in differences if difference.proposal]
    return [*(difference.text for difference in differences), *(f"warning: {proposal}" for proposal in proposals)]


def differences_of(configs: Sequence[DictConfig]) -> list[ArmDifference]:
    """configs: composed, of all runs. Empty for one arm, and for arms that `compare` would refuse as confounded.

    Raises UsageError where no arm is the declared baseline.
    """
    runs = [_record(number, cfg) for number, cfg in enumerate(configs)]
    if len(runs) < 2:
        return []
    declared = declaration(runs)
    differ = differing(runs)
    listed = runs[0].config.get(LIST)
    try:
        factor = [OWN, *declared.factor] if listed else declared.factor or find_factor(runs, differ, [])
    except ConfoundedError:
        return []
    keys = [OWN] if listed else list(differ)
    arms, _ = group(Records(runs, [], []), factor, keys)
    if len(arms) < 2:
        return []
    baseline = find_baseline(declared.baseline, arms) if declared.baseline else arms[0]
    return arm_differences({arm.name: arm.runs[0].config for arm in arms}, baseline.name, factor, runs)


def _record(number: int, cfg: DictConfig) -> RunRecord:
    config = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(config, dict)
    whole = {str(key): value for key, value in config.items()}
    return RunRecord(
        folder=Path(str(number)),
        config=whole,
        overrides=[str(word) for word in whole.get("overrides") or []],
        summary=NO_SUMMARY,
        environment=Environment(derived=derived_keys(whole)),
    )
