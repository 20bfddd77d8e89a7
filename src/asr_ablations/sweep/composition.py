"""Hydra's composition without a command line."""

from collections.abc import Sequence
from pathlib import Path

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.errors import UsageError


def compose(
    conf: Path, overrides: Sequence[str], *, name: str, folder: Path | None, with_hydra: bool = False
) -> DictConfig:
    """What the overrides make of the file `name` of conf/, or of `folder` (-cd), interpolations as they stand.

    with_hydra: with Hydra's own part. Raises UsageError for what Hydra refuses.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; the config was composed from its {name}.yaml")
    found_in = [] if folder is None else [f"hydra.searchpath=['file://{conf}']"]
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str((folder or conf).resolve())):
            return hydra_compose(name, overrides=[*found_in, *overrides], return_hydra_config=with_hydra)
    except MissingConfigException as error:
        group, _, value = str(error.missing_cfg_file).rpartition("/")
        expected = f"expected {', '.join(error.options)}" if error.options else "there is no such file"
        raise UsageError(f"{group or folder or conf}={value}: {expected}") from error
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(" ".join(str(error).split())) from error
