"""The runs of a list of arms: every combination of the values beside it, each with every arm."""

import json
from collections.abc import Callable, Sequence

from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import one_line
from asr_ablations.runs.identity import content
from asr_ablations.runs.listed_arms import LIST, OWN, ListedArm, read_arms
from asr_ablations.tools.errors import UsageError

Words = Sequence[str]
Compose = Callable[[Words], DictConfig]


def each_arm_of(batch: Sequence[Words], compose: Compose) -> list[list[str]]:
    """The overrides of all runs, arm by arm for each combination: what is stopped early has whole seeds.

    batch: overrides of the combinations; compose: the resolved config that overrides make. An arm's own value of a key
    takes the place of the one for all arms. Raises UsageError for a list of another form, for a key that does not
    exist, and for arms that are the same experiment.
    """
    listed = OmegaConf.to_container(compose(batch[0]))
    assert isinstance(listed, dict)
    arms = read_arms(listed[LIST])
    if not arms:
        return [list(words) for words in batch]
    varied = {key for words in batch for key, value in map(_pair, words) if (key, value) not in map(_pair, batch[0])}
    for arm in arms:
        if both := [key for key in arm.keys if key in varied]:
            raise UsageError(f"{LIST}: {both[0]} is varied beside the list too; expected it in one of them")
    refuse_equal(arms, [_composed(arm, _together(batch[0], arm), compose) for arm in arms])
    return [_together(words, arm) for words in batch for arm in arms]


def _pair(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    return key.lstrip("+~"), value


def _together(words: Words, arm: ListedArm) -> list[str]:
    return [*(word for word in words if _pair(word)[0] not in (*arm.keys, OWN)), *arm.overrides]


def _composed(arm: ListedArm, words: Words, compose: Compose) -> DictConfig:
    try:
        return compose(words)
    except MissingConfigException:
        raise  # names the option and the choices by itself
    except (UsageError, HydraException, OmegaConfBaseException) as error:
        raise UsageError(f"arm {arm.name}: {one_line(error)}") from error


def refuse_equal(arms: Sequence[ListedArm], configs: Sequence[DictConfig]) -> None:
    """Raises UsageError for two arms whose configs differ in nothing that can change a result."""
    names: dict[str, str] = {}
    for arm, cfg in zip(arms, configs, strict=True):
        other = names.setdefault(json.dumps(content(cfg), sort_keys=True, default=str), arm.name)
        if other != arm.name:
            raise UsageError(f"{LIST}: {other} and {arm.name} are the same experiment; expected a change in each arm")
