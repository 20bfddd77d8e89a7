"""The folder of one reproduction, and the config that it runs."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf

from asr_ablations.reproduction.frozen_run import make_absolute
from asr_ablations.reproduction.original import Original
from asr_ablations.runs.layout import REPRODUCTION, REQUEST, runs_in
from asr_ablations.runs.lease import owner
from asr_ablations.tools.files import Json, write


@dataclass(frozen=True)
class Attempt:
    """One reproduction. home: holds the request, the run's folder, and at the end the verdict."""

    home: Path

    @property
    def run_folder(self) -> Path | None:
        """The folder of the run; None before the run has started."""
        return next(iter(runs_in(self.home)), None)


def open_attempt(original: Original, reproductions: Path, *, checkout: bool) -> Attempt:
    """Open the next free folder under `reproductions`, or the folder of an interrupted attempt, which then continues.

    checkout: attempts with the recorded code are numbered on their own.
    """
    parent = reproductions / original.sweep.name / original.folder.name
    kind = "-checkout" if checkout else ""
    number = 1
    while (home := parent / f"{number}{kind}").exists():
        if _can_continue(home, request_text(original, home)):
            return Attempt(home)
        number += 1
    home.mkdir(parents=True)
    write(home / REQUEST, request_text(original, home))
    return Attempt(home)


def _can_continue(home: Path, request: str) -> bool:
    """Whether this folder has the same request and no verdict, and no process works on it."""
    if (home / REPRODUCTION).exists() or not (home / REQUEST).exists():
        return False
    folder = Attempt(home).run_folder
    return (home / REQUEST).read_text(encoding="utf-8") == request and (folder is None or not owner(folder))


def request_text(original: Original, home: Path) -> str:
    """The original's config as YAML with other machine keys: its folder, its threads, and no W&B run to write into,
    since that would be the original's.
    """
    cfg = original.cfg.copy()
    machine: Json = {
        "outputs": str(home.parent),
        "sweep": home.name,
        "logger": {"_target_": "asr_ablations.components.logger.csv.no_further_logger", "_partial_": True},
        "force": False,
        "plan": False,
        "threads": original.threads,
    }
    if not original.record.environment.get("hardware", {}).get("gpus") and cfg.get("gpus") == "auto":
        machine["gpus"] = 0  # this machine may have GPUs where the original's had none
    for key in machine.keys() & cfg.keys():  # a record of other code may lack some of them
        cfg[key] = machine[key]
    make_absolute(cfg)
    return OmegaConf.to_yaml(cfg)
