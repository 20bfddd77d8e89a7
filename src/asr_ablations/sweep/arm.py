"""One arm of a sweep: a frozen config, and the folder of its run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import ranks
from asr_ablations.runs.layout import OUTPUT_LOG, frozen_config
from asr_ablations.runs.reader import UnreadableFileError, read_sweep
from asr_ablations.tools.files import Json, write


@dataclass(frozen=True)
class FrozenArm:
    """An arm whose config lies on disk, where later edits do not reach it.

    folder: of its run; gpus: how many the config asks for, None for one per rank where the machine has GPUs; ranks:
    processes that train together; overrides: what distinguishes the arm on the command line.
    """

    name: str
    id: str
    config: Path
    folder: Path
    gpus: int | None
    ranks: int
    overrides: tuple[str, ...]

    @property
    def log(self) -> Path:
        """The file that the output of the arm's process goes to."""
        return self.folder / OUTPUT_LOG

    def as_json(self) -> Json:
        """The arm as the sweep's manifest records it."""
        paths = {"config": str(self.config), "folder": str(self.folder)}
        return {**asdict(self), **paths, "overrides": list(self.overrides)}


def freeze_arm(cfg: DictConfig, fingerprint: str) -> FrozenArm:
    """Write the config of an arm to disk. fingerprint: of its data, "" where there is none."""
    run = Run(cfg, fingerprint)
    path = frozen_config(run.folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, OmegaConf.to_yaml(cfg, resolve=True))  # as the run records it: whoever never started is assigned by it
    gpus = cfg.gpus if isinstance(cfg.get("gpus"), int) else None
    return FrozenArm(run.name, run.id, path, run.folder, gpus, ranks(cfg), tuple(cfg.overrides))


def forget(arms: Sequence[FrozenArm]) -> None:
    """Take back the frozen configs of arms that were only looked at, and folders that are empty then: what the sweep's
    manifest names, or has begun, stays.
    """
    for arm in arms:
        sweep = arm.folder.parent
        if not arm.folder.exists() and not _is_launched(arm.id, sweep):
            arm.config.unlink(missing_ok=True)
        for folder in (arm.config.parent, sweep):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _is_launched(arm: str, sweep: Path) -> bool:
    """Whether the sweep's manifest names the arm, or cannot be read and might; one of a plan alone names none."""
    try:
        return any(known["id"] == arm for known in read_sweep(sweep).get("arms", []))
    except FileNotFoundError:
        return False
    except UnreadableFileError:
        return True
