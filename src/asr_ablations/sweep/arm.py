"""One arm of a sweep: a frozen config, and what a process does that runs it."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import ranks
from asr_ablations.runs.layout import OUTPUT_LOG, frozen_config
from asr_ablations.tools.files import write


@dataclass(frozen=True)
class Arm:
    """A config on disk that nothing changes any more; `folder` is where its run lies. gpus: None for one a rank if
    there are any; ranks: processes that train together.
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
        """What the arm's process says."""
        return self.folder / OUTPUT_LOG

    @staticmethod
    def freeze(cfg: DictConfig, fingerprint: str) -> "Arm":
        """Write the config. fingerprint: of its data."""
        run = Run(cfg, fingerprint)
        path = frozen_config(run.folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, OmegaConf.to_yaml(cfg))
        gpus = cfg.gpus if isinstance(cfg.get("gpus"), int) else None
        return Arm(run.name, run.id, path, run.folder, gpus, ranks(cfg), tuple(cfg.overrides))
