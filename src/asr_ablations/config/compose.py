"""Hydra's composition without a command line."""

from collections.abc import Sequence
from pathlib import Path

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from hydra.core.singleton import Singleton
from hydra.errors import HydraException, MissingConfigException
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import one_line
from asr_ablations.config.languages import look_up_in
from asr_ablations.config.loader import use_loader
from asr_ablations.runs.identity import short_name
from asr_ablations.tools.errors import UsageError


def compose(
    conf: Path, overrides: Sequence[str], *, name: str, folder: Path | None, with_hydra: bool = False
) -> DictConfig:
    """The config that the overrides make of the file `name` of conf/, or of `folder` (-cd), interpolations unresolved.

    with_hydra: with Hydra's own part. Raises UsageError for what Hydra refuses.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; the config was composed from its {name}.yaml")
    look_up_in(conf)
    use_loader()
    search = [] if folder is None else [f"hydra.searchpath=['file://{conf}']"]
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str((folder or conf).resolve())):
            return hydra_compose(name, overrides=[*search, *overrides], return_hydra_config=with_hydra)
    except MissingConfigException as error:
        group, _, value = str(error.missing_cfg_file).rpartition("/")
        expected = f"expected {', '.join(error.options)}" if error.options else "there is no such file"
        raise UsageError(f"{group or folder or conf}={value}: {expected}") from error
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(one_line(error)) from error


def compose_arm(context: HydraContext, config: DictConfig, overrides: Sequence[str], number: int) -> DictConfig:
    """The resolved config of one arm under its sweep's name, without Hydra's own part, for launchers."""
    state = Singleton.get_state()
    try:
        cfg = context.config_loader.load_sweep_config(config, list(overrides))
        with open_dict(cfg):
            cfg.hydra.job.num = number
            HydraConfig.instance().set_config(cfg)
            if cfg.get("sweep", "") is None:
                cfg.sweep = sweep_name(config.hydra)
            del cfg["hydra"]
        OmegaConf.resolve(cfg)
    finally:
        Singleton.set_state(state)
    return cfg


def sweep_name(hydra: HydraConf | DictConfig | None) -> str:
    """The name of a sweep that was given none: its file's, or what its command line varies; "single" for one run."""
    if hydra is None or hydra.mode != RunMode.MULTIRUN:
        return "single"
    return str(hydra.job.config_name) if hydra.job.config_name != "config" else short_name(hydra.overrides.task)
