"""One arm of a sweep: a frozen config, and what a process does that runs it."""

import os
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.run import Run, ranks, write


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
        return self.folder / "output.log"

    @staticmethod
    def freeze(cfg: DictConfig, fingerprint: str) -> "Arm":
        """Write the config. fingerprint: of its data."""
        run = Run(cfg, fingerprint)
        path = run.folder.parent / "arms" / f"{run.folder.name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, OmegaConf.to_yaml(cfg))
        gpus = cfg.gpus if isinstance(cfg.get("gpus"), int) else None
        return Arm(run.name, run.id, path, run.folder, gpus, ranks(cfg), tuple(cfg.overrides))


def command(script: Path, config: Path, devices: int = 1, threads: int | None = None) -> list[str]:
    """The command line that runs a frozen config; several processes go under torchrun, never under a relaunch of
    sys.argv, which would replay the sweep in every rank.
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={devices}"] if devices > 1 else []
    limit = [str(threads)] if threads else []
    return [sys.executable, *torchrun, "-m", "asr_ablations.sweep.arm", str(script), str(config), *limit]


def child_environment() -> dict[str, str]:
    """This process's environment with the package on the path."""
    source = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}


def main(script: str, config: str, threads: int | None = None) -> None:
    """Run the script's `main` on the frozen config, in this process."""
    from asr_ablations.sweep.lifeline import follow_launcher

    follow_launcher()
    cfg: Any = OmegaConf.load(config)
    if cfg.get("threads", "") is None:
        cfg.threads = threads
    sys.argv = [script, *cfg.overrides]  # what the record shows, and what a start under torchrun goes by
    runpy.run_path(script, run_name="arm")["main"](cfg)


def _from_command_line(arguments: Sequence[str]) -> None:
    script, config, *threads = arguments
    main(script, config, int(threads[0]) if threads else None)


if __name__ == "__main__":
    _from_command_line(sys.argv[1:])
