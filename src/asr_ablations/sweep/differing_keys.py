"""Print how a sweep's arms differ before the first one runs, because a mistake seen later costs the runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import cast

from omegaconf import DictConfig, OmegaConf

from asr_ablations.comparison.arm_differences import ArmDifference, arm_differences
from asr_ablations.config.targets import groups, options_by_name
from asr_ablations.runs.identity import derived_keys
from asr_verdicts.arms import Named, find_arm, find_baseline, group
from asr_verdicts.config import LIST, OWN, Config, leaves, within
from asr_verdicts.confounds import ConfoundedError, confounds, differing, find_factor, references, replicated
from asr_verdicts.declaration import declaration
from asr_verdicts.errors import UsageError, choices


def print_differences(configs: Sequence[DictConfig]) -> None:
    """Print the keys in which each arm differs from the baseline, or a warning if no arm is the baseline."""
    try:
        lines = [*_warn_of_confounds(configs), *format_differences(find_differences(configs))]
    except UsageError as error:
        lines = [f"warning: ablation.{error}: `compare` will need --baseline"]
    print("".join(f"{line}\n" for line in lines), end="")


def _warn_of_confounds(configs: Sequence[DictConfig]) -> list[str]:
    """Warn if the arms differ in more than the declared factor, which `compare` refuses."""
    runs = _composed(configs)
    factor = declaration(runs).factor
    if not factor or runs[0].config.get(LIST) or not (beyond := confounds(runs, factor, differing(runs))):
        return []
    keys, allowed = ", ".join(beyond), " ".join(f"--allow {key}" for key in beyond)
    return [f"warning: ablation.factor={', '.join(factor)}: the arms differ in {keys}, too: `compare` needs {allowed}"]


def refuse_misspelt(configs: Sequence[DictConfig]) -> None:
    """Raise UsageError if only undeclared keys vary, or if a baseline is nearly the name of an arm."""
    runs = _composed(configs)
    declared = declaration(runs)
    if len(runs) < 2 or not declared.factor or runs[0].config.get(LIST):
        return
    differ = {key: values for key, values in differing(runs).items() if not within(key, replicated(runs))}
    varied = [key for key in confounds(runs, declared.factor, differ) if not within(key, ["seed", "seeds", OWN])]
    if varied and not any(within(key, declared.factor) for key in differ):
        roots = list(dict.fromkeys(key.removesuffix("._target_") for key in varied))
        raise choices("ablation.factor", ", ".join(declared.factor), f"a key that varies: {', '.join(roots[:5])}")
    arms = group(runs, declared.factor, list(differ))
    name = declared.baseline or ""
    if find_arm(name, arms) is None and (near := _nearest(name, arms, declared.factor)):
        raise UsageError(f"ablation.baseline={name}: no arm has this name; nearest: {near}")


def _nearest(name: str, arms: Sequence[Named], factor: Sequence[str]) -> str:
    """Return the arm that was probably meant. "" for an option of the factor, a number, or without a similar arm."""
    choice = name.rpartition("=")[2]
    options = {option for root in factor if root in groups() for option in options_by_name(root)}
    by_choice = {choice: arm.name for arm in arms for choice in arm.levels.values()}
    near = get_close_matches(choice, by_choice, n=1, cutoff=0.75)
    return by_choice[near[0]] if near and choice.isalpha() and choice not in {*options, "none"} else ""


def format_differences(differences: Sequence[ArmDifference]) -> list[str]:
    """Format the differences as lines, with proposals of another baseline."""
    proposals = [difference.proposal for difference in differences if difference.proposal]
    return [*(difference.text for difference in differences), *(f"warning: {proposal}" for proposal in proposals)]


def find_differences(configs: Sequence[DictConfig]) -> list[ArmDifference]:
    """Find how all arms differ, if one factor explains it. Raise UsageError if no arm is the declared baseline."""
    runs = _composed(configs)
    declared, differ, listed = declaration(runs), differing(runs), runs[0].config.get(LIST)
    try:
        factor = [OWN, *declared.factor] if listed else declared.factor or find_factor(runs, differ, [])
    except ConfoundedError:
        return []
    arms = group(runs, factor, [OWN] if listed else list(differ))
    if len(arms) < 2:
        return []
    baseline = find_baseline(declared.baseline or arms[0].name, arms)
    by_arm = {arm.name: arm.runs[0].config for arm in arms}
    return arm_differences(by_arm, baseline.name, factor, references(runs))


@dataclass(frozen=True)
class ComposedRun:
    """A run that has not begun. config: resolved. overrides: the words that name its arm."""

    config: Config
    overrides: list[str]

    @cached_property
    def derived(self) -> dict[str, list[str]]:
        return derived_keys(self.config)

    @cached_property
    def content(self) -> dict[str, object]:
        return leaves(self.config)


def plain(cfg: DictConfig) -> Config:
    """Convert a config to resolved plain containers."""
    return cast(Config, OmegaConf.to_container(cfg, resolve=True))


def _composed(configs: Sequence[DictConfig]) -> list[ComposedRun]:
    return [ComposedRun(config, config.get("overrides") or []) for config in map(plain, configs)]
