"""A run's identity, folder, status and record."""

import csv
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config import slug

MACHINE_KEYS = ("sweep", "ablation", "overrides", "outputs", "logger", "workers", "progress", "hardware")
"""Keys that only steer the machine or name the run: they change no number, and are not part of a run's identity."""


def identity(cfg: DictConfig) -> str:
    """Eight hexadecimal digits of a hash over everything in the resolved config that can change the result."""
    content = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(content, dict)
    if isinstance(content.get("data"), dict):
        content["data"].pop("root", None)  # where it lies; data.json has a hash of what it is
    if isinstance(content.get("cache"), dict):
        content["cache"] = content["cache"]["_target_"]  # which kind; not where it lies and how large it may be
    kept = {key: value for key, value in content.items() if key not in MACHINE_KEYS}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:8]


def short_name(overrides: Iterable[str]) -> str:
    """The overrides that say something of the experiment, in short, for people; the identity tells runs apart."""
    machine = (*(f"{key}=" for key in MACHINE_KEYS), "data.root=", "cache.root=")
    told = [o for o in overrides if not o.lstrip("+~").startswith(machine)]
    return slug("+".join(o.replace("=", "-") for o in told))[:80] if told else "default"


def rank() -> int:
    """This process's number among those of one run, as torchrun numbers them; 0 where there is one."""
    return int(os.environ.get("RANK", 0))


class Run:
    """The folder of one run as a context: says running, then done or failed with the reason. Of several ranks, only
    the first writes.
    """

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg = cfg
        self.id = identity(cfg)
        self.name = short_name(cfg.overrides)
        self.folder = Path(str(cfg.outputs)) / slug(str(cfg.sweep)) / f"{self.name}-{self.id}"
        self.started = time.time()
        self.phases: dict[str, float] = {}

    def __enter__(self) -> "Run":
        if rank():
            return self
        self._keep_previous()
        self.folder.mkdir(parents=True)
        write(self.folder / "config.yaml", OmegaConf.to_yaml(self.cfg, resolve=True))
        write(self.folder / "overrides", "".join(f"{line}\n" for line in self.cfg.overrides))
        write_json(self.folder / "environment.json", environment())
        self._status("running")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._status("done")
        else:
            reason = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
            self._status("failed", reason=" ".join(reason.split()))

    def _keep_previous(self) -> None:
        """Move what an earlier run of the same content left to <folder>.1, .2, …: nothing is lost."""
        if not self.folder.exists():
            return
        number = 1
        while (kept := self.folder.with_name(f"{self.folder.name}.{number}")).exists():
            number += 1
        self.folder.rename(kept)

    def _status(self, status: str, **more: Any) -> None:
        if rank():
            return
        seconds = round(time.time() - self.started, 3)
        told = {"status": status, "pid": os.getpid(), "started": _iso(self.started), "seconds": seconds, **more}
        write_json(self.folder / "status.json", told)


def write(path: Path, text: str) -> None:
    """Write under a temporary name and rename: a file that is there is whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    """As `write`, indented JSON."""
    write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """As `write`, a table with the keys of the first row as its head."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        table.writeheader()
        table.writerows(rows)
    temporary.replace(path)


def environment() -> dict[str, Any]:
    """Versions, hardware, command and code of this process."""
    from importlib.metadata import PackageNotFoundError, version

    import torch

    packages = ("torch", "torchaudio", "pytorch-lightning", "hydra-core", "wandb", "torchmetrics", "numpy", "soundfile")
    versions = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    hardware = {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }
    told = {"started": _iso(time.time()), "command": sys.argv, "versions": versions, "hardware": hardware}
    return {**told, "code": _code()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _code() -> dict[str, str]:
    """Commit and uncommitted changes of the code that runs, empty outside a git checkout."""

    def git(*arguments: str) -> str:
        told = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), *arguments], capture_output=True, text=True, check=True
        )
        return told.stdout

    try:
        return {"commit": git("rev-parse", "HEAD").strip(), "dirty_diff": git("diff", "HEAD", "--", ".")}
    except (OSError, subprocess.CalledProcessError):
        return {}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=timezone.utc).isoformat(timespec="seconds")
