"""One arm of a sweep: a frozen config, and a fresh process that runs it."""

import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config import check
from asr_ablations.run import Run


@dataclass(frozen=True)
class Arm:
    """A config on disk that nothing changes any more; `folder` is where its run will lie."""

    name: str
    config: Path
    folder: Path

    @staticmethod
    def freeze(cfg: DictConfig) -> "Arm":
        """Check the config and write it. Raises UsageError: a sweep with a wrong value does not start at all."""
        check(cfg)
        run = Run(cfg)
        path = run.folder.parent / "arms" / f"{run.folder.name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(OmegaConf.to_yaml(cfg), encoding="utf-8")
        return Arm(run.name, path, run.folder)


def run_arms(script: Path, arms: Sequence[Arm]) -> list[int]:
    """Run each arm in turn, whatever becomes of the others; exit codes in the same order. Shows a table at the end."""
    codes = []
    for number, arm in enumerate(arms, start=1):
        print(f"\narm {number} of {len(arms)}: {arm.name}  ({arm.folder})", flush=True)
        codes.append(subprocess.run(command(script, arm.config), env=child_environment(), check=False).returncode)
    from asr_ablations.report.tables import print_arms

    print_arms([arm.folder for arm in arms])
    if any(codes):
        print(f"{sum(map(bool, codes))} of {len(arms)} arms failed", file=sys.stderr)
        sys.exit(1)
    return codes


def command(script: Path, config: Path, devices: int = 1) -> list[str]:
    """The command line that runs a frozen config; several devices go under torchrun, never under a relaunch of
    sys.argv, which would replay the sweep in every rank.
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={devices}"] if devices > 1 else []
    return [sys.executable, *torchrun, "-m", "asr_ablations.sweep.arm", str(script), str(config)]


def child_environment() -> dict[str, str]:
    """This process's environment with the package on the path."""
    source = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}


def main(script: str, config: str) -> None:
    """Run the script's `main` on the frozen config, in this process."""
    cfg = OmegaConf.load(config)
    sys.argv = [script, *cfg.overrides]  # what the record shows, and what a start under torchrun goes by
    runpy.run_path(script, run_name="arm")["main"](cfg)


if __name__ == "__main__":
    main(*sys.argv[1:])
