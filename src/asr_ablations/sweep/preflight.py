"""All arms of a sweep are checked before the first one starts: a wrong value shows now, and not at arm 7."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.build import build
from asr_ablations.config.keys import propose_keys
from asr_ablations.data.corpus import Corpus
from asr_ablations.experiment.finished import fingerprint_of, finished
from asr_ablations.runs.status import fate_of, reason
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
from asr_verdicts.config import flatten
from asr_verdicts.declaration import parse
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.failures import FailureRule
from asr_verdicts.metrics import find_metric


@dataclass(frozen=True)
class Checked:
    """The result of a check. fingerprint: of the arm's data; mistake: what is wrong with the arm, None if nothing."""

    fingerprint: str
    mistake: str | None


def check_declarations(configs: Sequence[DictConfig]) -> None:
    """Raises UsageError for a question that `compare` would not understand once the runs are there, and for a mode that
    W&B has not.
    """
    refuse_mode(configs)
    contents = [content for cfg in configs if isinstance(content := OmegaConf.to_container(cfg, resolve=True), dict)]
    keys = {str(key): value for content in contents for key, value in content.items()}
    dotted_keys = [
        *keys,
        *(dotted for content in contents for dotted in flatten({str(k): v for k, v in content.items()})),
    ]
    for node, data in {json.dumps(_asked(content)): _asked(content) for content in contents}.values():
        if node is None:
            continue
        declared = parse(node)
        metric = find_metric(declared.metric or "wer")
        FailureRule.parse(declared.failed)
        for root in declared.factor:
            if "model" in keys and not any(key == root or key.startswith(f"{root}.") for key in dotted_keys):
                raise UsageError(f"ablation.factor={root}: {propose_keys(root, dotted_keys)}")
        for target in declared.targets:
            if not 0 < target <= (1 if metric.is_rate else math.inf):
                raise choices("ablation.targets", f"{target:g}", "rates as fractions: 0.2 is 20 %")
        if declared.set is not None and (sets := _held_out(data)) and declared.set not in sets:
            raise choices("ablation.set", declared.set, sets)


def _asked(content: dict[Any, Any]) -> tuple[Any, Any]:
    """The declaration of a config, and its corpus."""
    return content.get("ablation"), content.get("data")


def _held_out(data: dict[str, Any] | None) -> list[str]:
    """The names of the test and validation sets; none where arms decode, and have no corpus of their own."""
    if not data:
        return []
    corpus: Corpus = build(OmegaConf.create({"data": data}).data)  # the config of a manifest has paths
    return [*corpus.test, *corpus.validation]


def fingerprints(configs: Sequence[DictConfig]) -> list[str]:
    """The fingerprint of each arm's data; a corpus that is generated on first use is generated here.

    Nothing is built where all arms have their results: they were checked before they ran. Raises UsageError that names
    the arm and its mistake.
    """
    if all(map(is_training, configs)) and (runs := finished(configs)) is not None:
        return [run.fingerprint for run in runs]
    results = in_subprocess(check_arms, [OmegaConf.to_yaml(cfg) for cfg in configs])
    for cfg, result in zip(configs, results, strict=True):
        if result.mistake is not None:
            raise UsageError(f"arm {' '.join(cfg.overrides) or 'default'}: {result.mistake}")
    return [result.fingerprint for result in results]


def ask_wandb(arms: Sequence[FrozenArm]) -> None:
    """Ask W&B's server once for all arms that are to be logged there: if it cannot be reached they go on offline.
    Raises UsageError for a mode or a setting that W&B does not have.
    """
    waiting = [arm for arm in arms if fate_of(arm.folder).state not in ("done", "diverged")]
    if not any(LOGGER in arm.config.read_text("utf-8") for arm in waiting):
        return
    if mode() not in WITHOUT_SERVER and (silence := in_subprocess(why_silent, PATIENCE_FIRST)) is not None:
        go_offline(silence, "the arms go on offline")


def check_arms(texts: Sequence[str]) -> list[Checked]:
    """Build the model of every arm, and read every corpus once. Runs in a subprocess. texts: the configs as YAML."""
    by_data: dict[str, str] = {}
    return [check_arm(_config(text), by_data) for text in texts]


def _config(text: str) -> DictConfig:
    cfg = OmegaConf.create(text)
    assert isinstance(cfg, DictConfig)
    return cfg


def check_arm(cfg: DictConfig, by_data: dict[str, str]) -> Checked:
    """Check one arm. by_data: fingerprints by the config of the data, to which this call adds."""
    from asr_ablations.experiment.run import set_up

    if not is_training(cfg):
        return Checked("", None)
    key = json.dumps(OmegaConf.to_container(cfg.data), sort_keys=True)
    try:
        if key in by_data:
            _build(cfg)
        else:
            by_data[key] = set_up(cfg).data.fingerprint
    except UsageError as error:
        return Checked("", str(error))
    except (MemoryError, RuntimeError):
        # too large for this machine, or broken: the arm itself reports it, in its own log, when it runs
        if key not in by_data:
            return _without_model(cfg, key, by_data)
    return Checked(by_data[key], None)


def _without_model(cfg: DictConfig, key: str, by_data: dict[str, str]) -> Checked:
    """Return the data's fingerprint for an arm whose model cannot be built."""
    try:
        by_data[key] = fingerprint_of(cfg)
        return Checked(by_data[key], None)
    except UsageError as error:
        return Checked("", str(error))
    except (MemoryError, RuntimeError) as error:
        return Checked("", reason(error))


def _build(cfg: DictConfig) -> None:
    """Build what depends on the config alone, without reading the data. The GPUs of the machine that the arm runs on,
    which may be another one, are checked where arms get their places.
    """
    from asr_ablations.training.assembly import assemble, check_nodes

    check_nodes(cfg.nodes)
    assemble(cfg, build(cfg.data))


def is_training(cfg: DictConfig) -> bool:
    """True if the arm trains a model. A measurement is repeated each time."""
    return "max_epochs" in cfg and "benchmark" not in cfg
