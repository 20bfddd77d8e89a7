"""A new run that differs from an earlier one in what is asked for, and in nothing else."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import one_line
from asr_ablations.config.checks import check
from asr_ablations.config.compose import compose
from asr_ablations.reproduction.attempt import make_absolute, start
from asr_ablations.reproduction.original import Original
from asr_ablations.reproduction.reproduce import code, refuse_failure
from asr_ablations.runs.identity import MACHINE_KEYS, content, differences
from asr_ablations.runs.layout import CONFIG
from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_ablations.tools.errors import UsageError


def run_variation(
    original: Original, asked: Sequence[str], source: Path, outputs: Path | None, *, checkout: bool
) -> None:
    """Train the original's config with the overrides `asked` on top, in the sweep of the original.

    Raises UsageError for what Hydra or the program refuse, and where conf/ no longer gives the original's config.
    """
    with code(original, source, checkout=checkout) as tree:
        cfg = vary(original, asked, tree, source)
        cfg.outputs = str(outputs.absolute() if outputs else original.sweep.parent)
        for key, was, now in differences(content(original.cfg), content(cfg)):
            print(f"the new run differs in {key}: {now!r} instead of {was!r}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / CONFIG
            path.write_text(OmegaConf.to_yaml(cfg, resolve=True), encoding="utf-8")
            exit_code = start(tree, path, original.threads)
    refuse_failure(exit_code, None)


def vary(original: Original, asked: Sequence[str], tree: Path, source: Path) -> DictConfig:
    """The config with `asked` on top, checked. What names or steers the run is the original's, too."""
    before = composed(original, original.record.overrides, tree, source)
    if changed := differences(content(original.cfg), content(before)):
        told = "; ".join(f"{key}: {was!r} then, {now!r} now" for key, was, now in changed)
        raise UsageError(
            f"conf/ no longer gives the config of {original.folder.name} ({told}); "
            "--checkout takes the conf/ that it was made with"
        )
    cfg = composed(original, replaced(original.record.overrides, asked), tree, source)
    _name_and_steer_alike(cfg, original, {key.split(".")[0] for key in keys(asked)})
    check(cfg)
    make_absolute(cfg)
    return cfg


def _name_and_steer_alike(cfg: DictConfig, original: Original, asked: set[str]) -> None:
    kept = {*MACHINE_KEYS} - {"overrides", *asked}
    with open_dict(cfg):
        for key in kept & original.cfg.keys() & cfg.keys():
            cfg[key] = original.cfg[key]
        for key in {"force", "plan"} & cfg.keys():
            cfg[key] = False
        if "threads" in cfg and cfg.threads is None:
            cfg.threads = original.threads
        cfg.sweep = original.sweep.name


def replaced(overrides: Sequence[str], asked: Sequence[str]) -> list[str]:
    """The overrides with those asked in the places of the same keys, or behind."""
    by_key = {key: line for line in overrides for key in keys([line])}
    by_key.update({key: line for line in asked for key in keys([line])})
    return list(by_key.values())


def composed(original: Original, overrides: Sequence[str], tree: Path, source: Path) -> DictConfig:
    """What conf/ of `tree` gives for overrides, resolved."""
    name, folder = composed_from(original)
    if folder is not None and folder.is_relative_to(source):
        folder = tree / folder.relative_to(source)
    cfg = compose(tree / "conf", overrides, name=name, folder=folder)
    with open_dict(cfg):
        cfg.overrides = list(overrides)
    try:
        OmegaConf.resolve(cfg)
    except OmegaConfBaseException as error:
        raise UsageError(one_line(error)) from error
    return cfg


def composed_from(original: Original) -> tuple[str, Path | None]:
    """Name of the file that the original's config was composed from, and the folder that -cd gave."""
    told: Any = original.record.environment.get("composed")
    if told:
        return str(told["config_name"]), Path(told["config_dir"]) if told["config_dir"] else None
    try:
        manifest = read_sweep(original.sweep)
    except (FileNotFoundError, UnreadableFileError):
        return "config", None
    folders = [Path(folder) for folder in manifest.get("config_folders", [])[1:]]
    return str(manifest.get("config_name", "config")), folders[0] if folders else None


def keys(overrides: Sequence[str]) -> set[str]:
    """The keys or groups that overrides set. Raises UsageError for what Hydra cannot read, and for several values."""
    for line in overrides:
        if "=" not in line and not line.startswith("~"):
            raise UsageError(f"{line}: expected KEY=VALUE behind the folder of one run")
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise UsageError(" ".join(str(error).split())) from error
    for one in parsed:
        if one.is_sweep_override():
            raise UsageError(f"{one.input_line}: expected one value; src/train.py -m runs several")
    return {one.key_or_group for one in parsed}
