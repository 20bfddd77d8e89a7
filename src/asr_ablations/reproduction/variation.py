"""Train a new run that differs from an earlier one only in the given overrides."""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from omegaconf.resolvers import oc

from asr_ablations.config.build import one_line
from asr_ablations.config.compose import compose
from asr_ablations.config.plain_keys import check
from asr_ablations.reproduction.reproduce import checked_out, make_absolute, run_frozen
from asr_ablations.runs.identity import content
from asr_ablations.runs.layout import CONFIG
from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_verdicts.config import MACHINE_KEYS, determining, differences
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Record

TRUSTED_VARIABLES = ("ASR_ABLATIONS_DATA", "XDG_CACHE_HOME", "HOME", "WANDB_PROJECT")
"""Environment variables that conf/ reads, for the places of corpora and of W&B's runs."""


def run_variation(
    original: Record, changes: Sequence[str], source: Path, outputs: Path | None, *, checkout: bool
) -> None:
    """Train the original's config with `changes` applied, in its sweep. source, checkout: as for `reproduce`.

    Raise UsageError if the run is refused, and if conf/ no longer gives the original's config.
    """
    code = checked_out(source, original.environment.code) if checkout else nullcontext(source)
    with code as tree:
        cfg = vary(original, changes, tree, source)
        cfg.outputs = str(outputs.absolute() if outputs else original.folder.parents[1])
        for key, old, new in differences(determining(original.config), content(cfg)):
            print(f"the new run differs in {key}: {new!r} instead of {old!r}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / CONFIG
            path.write_text(OmegaConf.to_yaml(cfg, resolve=True), encoding="utf-8")
            run_frozen(tree, path)


def vary(original: Record, changes: Sequence[str], tree: Path, source: Path) -> DictConfig:
    """Return the original's config with `changes` applied and checked. tree: the folder of the code."""
    overrides, changed = original.overrides, parse_overrides(changes)
    if drift := differences(determining(original.config), content(composed(original, overrides, tree, source))):
        listed = "; ".join(f"{key}: {old!r} then, {new!r} now" for key, old, new in drift)
        raise UsageError(
            f"conf/ no longer gives the config of {original.folder.name} ({listed}); "
            "--checkout uses the conf/ of the original"
        )
    cfg = composed(original, list({**parse_overrides(overrides), **changed}.values()), tree, source)
    kept = {*MACHINE_KEYS} - {"overrides", *(key.split(".")[0] for key in changed)}
    with open_dict(cfg):
        for key in kept & original.config.keys() & cfg.keys():
            cfg[key] = original.config[key]
        cfg.update(force=False, plan=False, sweep=original.folder.parent.name)
        if cfg.threads is None:
            cfg.threads = original.environment.hardware.threads
    check(cfg)
    make_absolute(cfg)
    return cfg


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """Return overrides by key or group. Raise UsageError for several values, and if Hydra refuses them."""
    for line in overrides:
        if "=" not in line and not line.startswith("~"):
            raise UsageError(f"{line}: expected KEY=VALUE after the folder of one run")
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise UsageError(" ".join(str(error).split())) from error
    for override in parsed:
        if override.is_sweep_override():
            raise UsageError(f"{override.input_line}: expected one value; src/train.py -m runs several")
    return {override.key_or_group: str(override.input_line) for override in parsed}


@contextmanager
def read_environment_only(names: Collection[str]) -> Iterator[None]:
    """Let ${oc.env:…} read only these variables within the context; refuse others without printing their values."""

    def variable(name: str, *default: str | None) -> str | None:
        if name not in names:
            raise UsageError(f"${{oc.env:{name}}}: a config from elsewhere reads {', '.join(names)} only")
        return oc.env(name, *default)

    OmegaConf.register_new_resolver("oc.env", variable, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def composed(original: Record, overrides: Sequence[str], tree: Path, source: Path) -> DictConfig:
    """Compose and resolve overrides with the conf/ of `tree`."""
    name, folder = composed_from(original)
    if folder is not None and folder.is_relative_to(source):
        folder = tree / folder.relative_to(source)
    cfg = compose(tree / "conf", overrides, name=name, folder=folder)
    with open_dict(cfg):
        cfg.overrides = list(overrides)
    try:
        with read_environment_only(TRUSTED_VARIABLES):  # the folder of configs comes from a record
            OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise UsageError(one_line(error)) from error
    return cfg


def composed_from(original: Record) -> tuple[str, Path | None]:
    """Return the name of the original's config file, and the folder of -cd, or None."""
    if recorded := original.environment.composed:
        return str(recorded.config_name), Path(recorded.config_dir) if recorded.config_dir else None
    with suppress(FileNotFoundError, UnreadableFileError):
        manifest = read_sweep(original.folder.parent)
        folders = [Path(folder) for folder in manifest.get("config_folders", [])[1:]]
        return str(manifest.get("config_name", "config")), folders[0] if folders else None
    return "config", None
