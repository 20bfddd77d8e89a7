"""Check all arms of a sweep, and print how they differ, before the first arm starts. A later error would waste runs."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from omegaconf import DictConfig, OmegaConf

from asr_ablations.comparison.arm_differences import ArmDifference, arm_differences
from asr_ablations.config.build import build
from asr_ablations.config.keys import propose_keys
from asr_ablations.data.corpus import Corpus
from asr_ablations.experiment.finished import compute_fingerprint, find_finished_runs
from asr_ablations.runs.identity import derived_keys
from asr_ablations.runs.listed_arms import check_arm as check_arm_of_list
from asr_ablations.runs.status import RESULTS, fate_of, reason
from asr_ablations.runs.wandb_run import (
    LOGGER,
    PATIENCE_FIRST,
    WITHOUT_SERVER,
    go_offline,
    mode,
    refuse_mode,
    why_silent,
)
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.processes import in_subprocess
from asr_verdicts.arms import find_baseline, group
from asr_verdicts.config import LIST, OWN, Config, flatten, leaves
from asr_verdicts.confounds import ConfoundedError, confounds, differing_beyond_seeds, find_factor, references
from asr_verdicts.declaration import declaration, parse
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.failures import FailureRule
from asr_verdicts.metrics import find_metric


def refuse_plan_of_runs(configs: Sequence[DictConfig]) -> None:
    """Raise UsageError if configs have until=verdict or a list of arms, but no sweeper that handles them."""
    for cfg in configs:
        check_arm_of_list(cfg)
    if configs[0].get("until") is not None:
        raise UsageError(
            "until=verdict adds runs to the arms of a sweep: expected -m, several arms, and no other hydra/sweeper"
        )


def check_declarations(configs: Sequence[DictConfig]) -> None:
    """Raise UsageError for a declaration that `compare` would refuse, or for an unknown W&B mode."""
    refuse_mode(configs)
    contents = [plain(cfg) for cfg in configs if cfg.get("ablation") is not None]
    keys = [key for content in contents for key in (*content, *flatten(content))]
    asked = [(content["ablation"], content.get("data")) for content in contents]
    for node, data in {json.dumps(pair): pair for pair in asked}.values():
        declared = parse(node)
        metric = find_metric(declared.metric or "wer")
        FailureRule.parse(declared.failed)
        for root in declared.factor:
            if "model" in keys and not any(key == root or key.startswith(f"{root}.") for key in keys):
                raise UsageError(f"ablation.factor={root}: {propose_keys(root, keys)}")
        for target in declared.targets:
            if not 0 < target <= (1 if metric.is_rate else math.inf):
                raise choices("ablation.targets", f"{target:g}", "rates as fractions: 0.2 is 20 %")
        if declared.set is not None and data:  # arms that only decode have no corpus
            # built because the config of data=manifest contains paths instead of set names
            corpus: Corpus = build(OmegaConf.create({"data": data}).data)
            if declared.set not in (sets := [*corpus.test, *corpus.validation]):
                raise choices("ablation.set", declared.set, sets)


def fingerprints(configs: Sequence[DictConfig]) -> list[str]:
    """Check each arm, and return the fingerprint of its data. Raise UsageError with the overrides of an invalid arm.

    Missing corpora are generated. If all arms have results, none is built, because all were checked before they ran.
    """
    if all(map(is_training, configs)) and (runs := find_finished_runs(configs)) is not None:
        return [run.fingerprint for run in runs]
    return in_subprocess(check_arms, configs)


def ask_wandb(arms: Sequence[FrozenArm]) -> None:
    """Check once whether W&B's server answers. If not, all arms that log to W&B log offline."""
    logging = any(LOGGER in str(arm.cfg) for arm in arms if fate_of(arm.folder).state not in RESULTS)
    if logging and mode() not in WITHOUT_SERVER and (silence := in_subprocess(why_silent, PATIENCE_FIRST)) is not None:
        go_offline(silence, "the arms log offline")


def check_arms(configs: Sequence[DictConfig]) -> list[str]:
    """Check each arm, and return the fingerprint of its data. Call this in a subprocess, because it imports torch."""
    by_data: dict[str, str] = {}
    results: list[str] = []
    for cfg in configs:
        try:
            results.append(_check(cfg, by_data))
        except (UsageError, MemoryError, RuntimeError) as error:
            why = error if isinstance(error, UsageError) else reason(error)
            raise UsageError(f"arm {' '.join(cfg.overrides) or 'default'}: {why}") from error
    return results


def _check(cfg: DictConfig, by_data: dict[str, str]) -> str:
    """Build an arm's model. Return the fingerprint of its data, or "" for a measurement. by_data: a cache."""
    from asr_ablations.experiment.run import set_up
    from asr_ablations.training.assembly import assemble, check_nodes

    if not is_training(cfg):
        return ""
    key = json.dumps(OmegaConf.to_container(cfg.data), sort_keys=True)
    try:
        if key in by_data:
            check_nodes(cfg.nodes)  # GPUs are checked when the arm starts, because it may run on another machine
            assemble(cfg, build(cfg.data))
        else:
            by_data[key] = set_up(cfg).data.fingerprint
    except (MemoryError, RuntimeError):
        # if the model is broken, or too large for this machine, the arm reports the error in its log when it runs
        if key not in by_data:
            by_data[key] = compute_fingerprint(cfg)
    return by_data[key]


def is_training(cfg: DictConfig) -> bool:
    """Return whether the arm trains a model. Otherwise it is a measurement, such as a benchmark."""
    return "max_epochs" in cfg and "benchmark" not in cfg


def print_differences(configs: Sequence[DictConfig]) -> None:
    """Print the keys in which each arm differs from the baseline, or a warning if none of the arms is the baseline."""
    try:
        lines = [*_warn_of_confounds(configs), *format_differences(find_differences(configs))]
    except UsageError as error:
        lines = [f"warning: ablation.{error}: `compare` will need --baseline"]
    print("".join(f"{line}\n" for line in lines), end="")


def _warn_of_confounds(configs: Sequence[DictConfig]) -> list[str]:
    """Return a warning if the arms differ in more than the declared factor, because `compare` refuses that."""
    runs = [ComposedRun(config, config.get("overrides") or []) for config in map(plain, configs)]
    factor = declaration(runs).factor
    if not factor or runs[0].config.get(LIST) or not (beyond := confounds(runs, factor, differing_beyond_seeds(runs))):
        return []
    keys, allowed = ", ".join(beyond), " ".join(f"--allow {key}" for key in beyond)
    return [f"warning: ablation.factor={', '.join(factor)}: the arms also differ in {keys}: `compare` needs {allowed}"]


def format_differences(differences: Sequence[ArmDifference]) -> list[str]:
    """Return the differences as lines of text, followed by warnings that propose another baseline."""
    proposals = [difference.proposal for difference in differences if difference.proposal]
    return [*(difference.text for difference in differences), *(f"warning: {proposal}" for proposal in proposals)]


def find_differences(configs: Sequence[DictConfig]) -> list[ArmDifference]:
    """Return how each arm differs from the baseline; an empty list if no single factor explains the differences.

    Raise UsageError if none of the arms is the declared baseline.
    """
    runs = [ComposedRun(config, config.get("overrides") or []) for config in map(plain, configs)]
    declared, differ, listed = declaration(runs), differing_beyond_seeds(runs), runs[0].config.get(LIST)
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
    """A run that has not started. config: the resolved config. overrides: the run's Hydra overrides."""

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
