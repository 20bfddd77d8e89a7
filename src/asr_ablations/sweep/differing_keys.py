"""What the arms of a sweep differ in, said before the first one runs: later it would cost the runs."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.targets import groups, options_by_name
from asr_ablations.runs.derived_keys import derived_keys
from asr_ablations.runs.listed_arms import keys_of_lists
from asr_verdicts.arm_differences import ArmDifference, arm_differences
from asr_verdicts.arms import Arm, find_arm, find_baseline, group
from asr_verdicts.config import LIST, OWN, within
from asr_verdicts.confounds import ConfoundedError, confounds, differing, find_factor, replicated
from asr_verdicts.declaration import Declaration, declaration
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import NO_SUMMARY, Environment, Record, Records


def print_differences(configs: Sequence[DictConfig]) -> None:
    """A line per arm with the keys in which it differs from the baseline, and a better baseline where there is one; or
    a warning that no arm is the declared baseline. The runs serve another comparison, so the sweep is not refused.
    """
    try:
        lines = [*_beyond_the_factor(configs), *difference_lines(differences_of(configs))]
    except UsageError as error:
        lines = [f"warning: ablation.{error}: `compare` will need --baseline"]
    for line in lines:
        print(line)


def _beyond_the_factor(configs: Sequence[DictConfig]) -> list[str]:
    """A warning where the arms differ in more than the declared factor, which `compare` refuses."""
    runs = [_record(number, cfg) for number, cfg in enumerate(configs)]
    factor = declaration(runs).factor
    if not factor or runs[0].config.get(LIST) or not (beyond := confounds(runs, factor, differing(runs))):
        return []
    keys, allowed = ", ".join(beyond), " ".join(f"--allow {key}" for key in beyond)
    return [f"warning: ablation.factor={', '.join(factor)}: the arms differ in {keys}, too: `compare` needs {allowed}"]


def refuse_misspelt(configs: Sequence[DictConfig]) -> None:
    """Raises UsageError where no declared factor varies though others do, and for a name of an arm that is nearly one
    of the arms: `compare` would refuse it after the training. A name that no arm resembles is of an arm that is left
    out here, or measured elsewhere.
    """
    runs = [_record(number, cfg) for number, cfg in enumerate(configs)]
    declared = declaration(runs)
    if len(runs) < 2 or not declared.factor or runs[0].config.get(LIST):
        return
    differ = {key: values for key, values in differing(runs).items() if not within(key, replicated(runs))}
    varied = [key for key in confounds(runs, declared.factor, differ) if not within(key, ["seed", "seeds", OWN])]
    if varied and not any(within(key, declared.factor) for key in differ):
        roots = list(dict.fromkeys(key.removesuffix("._target_") for key in varied))
        raise choices("ablation.factor", ", ".join(declared.factor), f"what varies: {', '.join(roots[:5])}")
    arms, _ = group(Records(runs, [], []), declared.factor, list(differ))
    name = declared.baseline or ""
    if find_arm(name, arms) is None and (near := _nearest(name, arms, declared.factor)):
        raise UsageError(f"ablation.baseline={name}: no arm is called so; nearest: {near}")


def _nearest(name: str, arms: Sequence[Arm], factor: Sequence[str]) -> str:
    """The arm whose choice was likely meant; "" where the name is an option of the factor, or like no arm's, or where
    it is no word: a number is near to any other.
    """
    choice = name.rpartition("=")[2]
    options = {option for root in factor if root in groups() for option in options_by_name(root)}
    by_choice = {choice: arm.name for arm in arms for choice in arm.levels.values()}
    near = get_close_matches(choice, by_choice, n=1, cutoff=0.75)
    return by_choice[near[0]] if near and choice.isalpha() and choice not in {*options, "none"} else ""


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
    arms = _arms(runs, declared)
    if len(arms) < 2:
        return []
    factor = _factor(runs, declared)
    baseline = find_baseline(declared.baseline, arms) if declared.baseline else arms[0]
    by_arm = {arm.name: arm.runs[0].config for arm in arms}
    return arm_differences(by_arm, baseline.name, factor, runs, *keys_of_lists(arms))


def _factor(runs: Sequence[Record], declared: Declaration) -> list[str]:
    """Raises ConfoundedError for runs that differ in several keys, of which none is declared."""
    if runs[0].config.get(LIST):
        return [OWN, *declared.factor]
    return declared.factor or find_factor(runs, differing(runs), [])


def _arms(runs: Sequence[Record], declared: Declaration) -> list[Arm]:
    """The arms of these runs; none where `compare` would refuse them as confounded."""
    try:
        factor = _factor(runs, declared)
    except ConfoundedError:
        return []
    keys = [OWN] if runs[0].config.get(LIST) else list(differing(runs))
    return group(Records(list(runs)), factor, keys)[0]


def _record(number: int, cfg: DictConfig) -> Record:
    config = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(config, dict)
    whole = {str(key): value for key, value in config.items()}
    return Record(
        folder=Path(str(number)),
        config=whole,
        overrides=[str(word) for word in whole.get("overrides") or []],
        summary=NO_SUMMARY,
        environment=Environment(derived=derived_keys(whole)),
    )
