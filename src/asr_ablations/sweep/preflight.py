"""Check all arms of a sweep before the first starts, so that a wrong value shows at once."""

import json
import math
from collections.abc import Sequence
from typing import cast

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.config.keys import propose_keys
from asr_ablations.data.corpus import Corpus
from asr_ablations.experiment.finished import compute_fingerprint, find_finished_runs
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
from asr_ablations.sweep.differing_keys import plain
from asr_ablations.sweep.processes import in_subprocess
from asr_verdicts.config import flatten
from asr_verdicts.declaration import parse
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.failures import FailureRule
from asr_verdicts.metrics import find_metric


def refuse_plan_of_runs(configs: Sequence[DictConfig]) -> None:
    """Raise UsageError for until=verdict, or a list of arms, in one run or with another sweeper."""
    for cfg in configs:
        check_arm_of_list(cfg)
    if configs and configs[0].get("until") is not None:
        raise UsageError(
            "until=verdict adds runs to the arms of a sweep: expected -m, several arms, and no other hydra/sweeper"
        )


def check_declarations(configs: Sequence[DictConfig]) -> None:
    """Raise UsageError for a question that `compare` would not understand, and for an unknown mode of W&B."""
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
            corpus: Corpus = build(OmegaConf.create({"data": data}).data)  # the config of a manifest has paths
            if declared.set not in (sets := [*corpus.test, *corpus.validation]):
                raise choices("ablation.set", declared.set, sets)


def fingerprints(configs: Sequence[DictConfig]) -> list[str]:
    """Return the fingerprint of each arm's data. Raise UsageError that names the arm and its mistake.

    Corpora are generated here. If all arms have results, nothing is built, because they were checked before they ran.
    """
    if all(map(is_training, configs)) and (runs := find_finished_runs(configs)) is not None:
        return [run.fingerprint for run in runs]
    results = in_subprocess(check_arms, [OmegaConf.to_yaml(cfg) for cfg in configs])
    for cfg, result in zip(configs, results, strict=True):
        if isinstance(result, UsageError):
            raise UsageError(f"arm {' '.join(cfg.overrides) or 'default'}: {result}")
    return [str(result) for result in results]


def ask_wandb(arms: Sequence[FrozenArm]) -> None:
    """Ask W&B's server once for all arms that log there; if it does not answer, they log offline."""
    logging = any(LOGGER in str(arm.cfg) for arm in arms if fate_of(arm.folder).state not in RESULTS)
    if logging and mode() not in WITHOUT_SERVER and (silence := in_subprocess(why_silent, PATIENCE_FIRST)) is not None:
        go_offline(silence, "the arms log offline")


def check_arms(texts: Sequence[str]) -> list[str | UsageError]:
    """Return the fingerprint of each arm's data, or the arm's error. Runs in a subprocess. texts: configs as YAML."""
    by_data: dict[str, str] = {}
    results: list[str | UsageError] = []
    for text in texts:
        try:
            results.append(_check(cast(DictConfig, OmegaConf.create(text)), by_data))
        except UsageError as error:
            results.append(error)
        except (MemoryError, RuntimeError) as error:
            results.append(UsageError(reason(error)))
    return results


def _check(cfg: DictConfig, by_data: dict[str, str]) -> str:
    """Build an arm's model and return its data's fingerprint. by_data: fingerprints of earlier arms, by data config."""
    from asr_ablations.experiment.run import set_up
    from asr_ablations.training.assembly import assemble, check_nodes

    if not is_training(cfg):
        return ""
    key = json.dumps(OmegaConf.to_container(cfg.data), sort_keys=True)
    try:
        if key in by_data:
            check_nodes(cfg.nodes)  # the arm's machine may be another one: its GPUs are checked when it gets a place
            assemble(cfg, build(cfg.data))
        else:
            by_data[key] = set_up(cfg).data.fingerprint
    except (MemoryError, RuntimeError):
        # the model is too large for this machine, or broken: the arm reports it in its log when it runs
        if key not in by_data:
            by_data[key] = compute_fingerprint(cfg)
    return by_data[key]


def is_training(cfg: DictConfig) -> bool:
    """Return whether the arm trains a model; if not, it is a measurement."""
    return "max_epochs" in cfg and "benchmark" not in cfg
