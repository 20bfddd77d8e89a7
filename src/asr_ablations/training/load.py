"""A trained model from a run's folder. The folder can be a stranger's: nothing in it is executed."""

from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import build
from asr_ablations.config.checks import check
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.runs.checkpoint import first_line, read_checkpoint
from asr_ablations.runs.layout import CHECKPOINTS, CONFIG
from asr_ablations.runs.reader import read_config
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.paths import DEFAULTS
from asr_ablations.training.assembly import assemble
from asr_ablations.training.task import CTCTask

KINDS = ("last", "best")


class Trained(NamedTuple):
    """A trained task in evaluation mode on the CPU, its data (nothing of it read yet), and the file of its weights.

    folder: where the config.yaml lies: the run's folder.
    """

    cfg: DictConfig
    task: CTCTask
    data: SpeechData
    folder: Path
    checkpoint: Path


def load(path: str | Path, checkpoint: str = "last") -> tuple[DictConfig, CTCTask, Alphabet]:
    """Config, task and alphabet of a run's folder or of a .ckpt below it. It takes no corpus. Raises as load_run."""
    trained = load_run(path, checkpoint)
    return trained.cfg, trained.task, trained.task.alphabet


def load_run(path: str | Path, checkpoint: str = "last", root: str | None = None) -> Trained:
    """As load, with the data. root: where the corpus lies now, in place of data.root.

    Raises UsageError for a folder that is no finished run's, a config that is not trusted, and a checkpoint that is of
    another alphabet or model, is damaged, or holds more than weights. A .ckpt may be of an unfinished run.
    """
    folder, file = find(Path(path), checkpoint)
    cfg = checked_config(folder)
    if root is not None:
        cfg.data.root = root
    weights = read_checkpoint(file)
    try:
        task, data = assemble(cfg, build(cfg.data), _alphabet(cfg, weights))
    except (OmegaConfBaseException, AttributeError) as error:
        raise UsageError(f"{folder / CONFIG}: of another version, or incomplete: {first_line(error)}") from error
    try:
        task.on_load_checkpoint(weights)
        task.load_state_dict(weights["state_dict"])
    except (ValueError, KeyError, RuntimeError) as error:
        raise UsageError(f"{file}: does not fit {folder / CONFIG}: {first_line(error)}") from error
    return Trained(cfg, task.eval(), data, folder, file)


def _alphabet(cfg: DictConfig, weights: dict[str, Any]) -> Alphabet | None:
    """The checkpoint's, where the config does not spell it."""
    if "characters" in cfg.alphabet or "alphabet" not in weights:
        return None
    return Alphabet(str(weights["alphabet"]), str(weights.get("separation", "")))


def find(path: Path, checkpoint: str) -> tuple[Path, Path]:
    """The folder with the config, and the checkpoint. Raises UsageError where one is missing."""
    if checkpoint not in KINDS:
        raise choices("checkpoint", checkpoint, KINDS)
    if path.suffix == ".ckpt":
        homes = [folder for folder in (path.parent, path.parent.parent) if (folder / CONFIG).is_file()]
        if not path.is_file():
            raise UsageError(f"{path}: there is no such checkpoint")
        if not homes:
            raise UsageError(f"{path}: no {CONFIG} beside it or in the folder above; it lies so in a run's folder")
        return homes[0], path
    if not (path / CONFIG).is_file():
        raise UsageError(f"{path}: no run's folder (there is no {CONFIG} in it); expected outputs/<sweep>/<run>")
    if reason := why_unfinished(path):
        raise UsageError(f"{path}: this run is not finished: {reason} (name a .ckpt in it to use that all the same)")
    file = path / CHECKPOINTS / f"{checkpoint}.ckpt"
    if not file.is_file():
        raise UsageError(f"{path}: no {CHECKPOINTS}/{checkpoint}.ckpt in it")
    return path, file


def checked_config(folder: Path) -> DictConfig:
    """The checked config of a run. Raises UsageError for one that is damaged or names what is not a component."""
    cfg, file = OmegaConf.create(read_config(folder)), folder / CONFIG
    try:
        if "model" not in cfg or "data" not in cfg:
            raise UsageError(f"{file}: no config of a run: it names no model or no data")
        _fill(cfg)
        check(cfg)
    except (OmegaConfBaseException, AttributeError) as error:
        raise UsageError(f"{file}: no config of a run: {first_line(error)}") from error
    return cfg


def _fill(cfg: DictConfig) -> None:
    """Give plain keys that came after the run was made their defaults."""
    defaults: Any = OmegaConf.to_container(OmegaConf.load(DEFAULTS))
    for key, value in defaults.items():
        if key not in cfg and key not in ("defaults", "hydra", "overrides") and value != "???":
            cfg[key] = value
