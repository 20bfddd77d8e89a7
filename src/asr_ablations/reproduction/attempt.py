"""The same frozen config once more, in a fresh process and a folder of its own."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.reproduction.original import Original
from asr_ablations.runs.identity import ranks
from asr_ablations.runs.layout import REPRODUCTION, REQUEST, runs_in
from asr_ablations.runs.lease import owner
from asr_ablations.runs.process import command, load_frozen
from asr_ablations.runs.watchdog import LAUNCHER, announce_launcher
from asr_ablations.tools.files import write


@dataclass(frozen=True)
class Attempt:
    """One reproduction. home: holds the request, the run's folder, and at the end the verdict."""

    home: Path

    @property
    def run_folder(self) -> Path | None:
        """Of the run; None before it has begun."""
        return next(iter(runs_in(self.home)), None)


def open_attempt(original: Original, reproductions: Path, *, checkout: bool) -> Attempt:
    """The next free folder under `reproductions`; of an attempt that was interrupted, its own: it goes on there."""
    home = reproductions / original.sweep.name / original.folder.name
    kind = "-checkout" if checkout else ""
    number = 1
    while (taken := home / f"{number}{kind}").exists():
        if _can_go_on(taken, frozen(original, taken)):
            return Attempt(taken)
        number += 1
    taken.mkdir(parents=True)
    write(taken / REQUEST, frozen(original, taken))
    return Attempt(taken)


def _can_go_on(home: Path, request: str) -> bool:
    """Whether the same was asked there, no verdict was reached, and nobody is at it."""
    if (home / REPRODUCTION).exists() or not (home / REQUEST).exists():
        return False
    begun = Attempt(home).run_folder
    return (home / REQUEST).read_text(encoding="utf-8") == request and (begun is None or not owner(begun))


def frozen(original: Original, home: Path) -> str:
    """The original's config with other keys of the machine: its place, its threads, and no W&B run to write into, since
    that would be the original's.
    """
    cfg = original.cfg.copy()
    asked: dict[str, Any] = {
        "outputs": str(home.parent),
        "sweep": home.name,
        "logger": {"_target_": "asr_ablations.components.logger.csv.no_further_logger", "_partial_": True},
        "force": False,
        "plan": False,
        "threads": original.threads,
    }
    if not original.record.environment.get("hardware", {}).get("gpus") and cfg.get("gpus") == "auto":
        asked["gpus"] = 0  # this machine may have what that one had not
    for key in asked.keys() & cfg.keys():  # a record of other code may know fewer of them
        cfg[key] = asked[key]
    make_absolute(cfg)
    return OmegaConf.to_yaml(cfg)


def make_absolute(cfg: DictConfig) -> None:
    """data.root of this folder, which null means too, since the run starts in another."""
    data = cfg.get("data")
    if isinstance(data, DictConfig) and "root" in data:
        data.root = str(Path(data.root or ".").absolute())


def start(source: Path, config: Path, threads: int | None) -> int:
    """Run a frozen config by the code of `source`, a checkout's folder; the exit code."""
    cfg = load_frozen(config)
    path = os.pathsep.join(filter(None, [str(source / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, LAUNCHER: announce_launcher()}
    if threads is not None and "threads" not in cfg:  # code from before that key
        environment["OMP_NUM_THREADS"] = str(threads)
    line = command(source / "src" / "train.py", config.absolute(), ranks(cfg))
    # not in the user's folder: if that is a src/, Python would import from there
    with subprocess.Popen(line, env=environment, cwd=source, start_new_session=True) as process, _ending(process):
        return process.wait()


@contextmanager
def _ending(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Ctrl-C and SIGTERM ask the run to write its checkpoint, and wait until it has."""

    def stop(number: int, frame: FrameType | None) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupted(exit_code: int) -> bool:
    """Whether a run ended because it was told to, and can go on."""
    return exit_code in (128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM)
