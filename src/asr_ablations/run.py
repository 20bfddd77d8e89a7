"""A run's identity, folder, status and record."""

import csv
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.claim import Claim, ClaimedError, owner
from asr_ablations.config import slug
from asr_ablations.errors import Stopped, UsageError

BEHAVIOUR = 1
"""Raised when the code changes the numbers of an unchanged config on purpose: runs before and after are then others."""

MACHINE_KEYS = (
    *("sweep", "ablation", "overrides", "outputs", "logger", "workers", "progress", "hardware"),
    *("force", "plan", "threads", "checkpoint_minutes", "pruning"),
    "languages",  # what data.language can choose from: the chosen one stands in alphabet.characters
)
"""Keys that only steer the machine or name the run: they change no number, and are not part of a run's identity."""
WHEREABOUTS = ("root", "download")
"""Keys of data that say where it lies or comes from; the fingerprint tells what it is."""


def content(cfg: DictConfig) -> dict[str, Any]:
    """Everything in the resolved config that can change the result."""
    whole: Any = OmegaConf.to_container(cfg, resolve=True)
    if isinstance(whole.get("data"), dict):
        for key in WHEREABOUTS:
            whole["data"].pop(key, None)
    if isinstance(whole.get("cache"), dict):
        for key in ("root", "gigabytes"):  # where it lies and how large it may be
            whole["cache"].pop(key, None)
    kept: dict[str, Any] = {key: value for key, value in whole.items() if key not in MACHINE_KEYS}
    if "gpus" in kept:  # the device changes rounding, the number of ranks the batch
        kept["ranks"] = ranks(cfg)
        del kept["gpus"]
    return kept


def ranks(cfg: DictConfig) -> int:
    """Processes that train together: one a GPU, or the key `ranks`."""
    if cfg.get("ranks") is not None:
        return int(cfg.ranks)
    return cfg.gpus if isinstance(cfg.gpus, int) and cfg.gpus > 1 else 1


def identity(cfg: DictConfig, fingerprint: str = "") -> str:
    """Eight hexadecimal digits of a hash over config, data and the behaviour of the code."""
    told = {"config": content(cfg), "data": fingerprint, "behaviour": BEHAVIOUR}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]


def short_name(overrides: Iterable[str]) -> str:
    """The overrides that say something of the experiment, in short, for people; the identity tells runs apart."""
    keys = (*MACHINE_KEYS, *(f"data.{key}" for key in WHEREABOUTS), "cache.root")
    machine = (*(f"{key}=" for key in keys), *(f"{key}." for key in keys), "hydra")
    told = [o for o in overrides if not o.lstrip("+~").startswith(machine)]
    return slug("+".join(o.replace("=", "-") for o in told))[:80] if told else "default"


def rank() -> int:
    """This process's number among those of one run, as torchrun numbers them; 0 where there is one."""
    return int(os.environ.get("RANK", 0))


class Pruned(Exception):  # noqa: N818
    """The run was ended because it does worse than others: neither done nor failed, and it can go on."""


class Run:
    """The folder of one run as a context: claims it, says running, then done, or pruned or failed with the reason. Of
    several ranks, only the first writes.

    fingerprint: of the data, "" where there is none.
    """

    def __init__(self, cfg: DictConfig, fingerprint: str = "") -> None:
        self.cfg, self.fingerprint = cfg, fingerprint
        self.id = identity(cfg, fingerprint)
        self.name = short_name(cfg.overrides)
        self.folder = Path(str(cfg.outputs)) / slug(str(cfg.sweep)) / f"{self.name}-{self.id}"
        self.checkpoints = self.folder / "checkpoints"
        self.started = time.time()
        self.phases: dict[str, float] = {}
        self._claim = Claim(self.folder, lost=lambda: os._exit(75))

    def status(self) -> str | None:
        """running, done, pruned, failed, or None where nothing has begun. Raises UsageError for a folder of another
        content.
        """
        told = read_status(self.folder)
        if told is None:
            return None
        self._refuse_another_content()
        return str(told["status"])

    def keep_previous(self) -> None:
        """Move what an earlier run left to <folder>.1, .2, …: nothing is lost. Raises ClaimedError where another
        process is still at it.
        """
        if not self.folder.exists():
            return
        if who := owner(self.folder):
            raise ClaimedError(f"{self.folder.name}: {who}")
        number = 1
        while (kept := self.folder.with_name(f"{self.folder.name}.{number}")).exists():
            number += 1
        self.folder.rename(kept)

    def __enter__(self) -> "Run":
        if rank():
            return self
        self._claim.take()
        (self.folder).mkdir(parents=True, exist_ok=True)
        if not (self.folder / "config.yaml").exists():
            write(self.folder / "overrides", "".join(f"{line}\n" for line in self.cfg.overrides))
            write(self.folder / "config.yaml", OmegaConf.to_yaml(self.cfg, resolve=True))
        self._record_environment()
        self._status("running")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._status("done")
        elif isinstance(error, Pruned):
            self._status("pruned", reason=str(error))
        else:
            self._status("failed", reason=reason(error))
        self._claim.release()
        return isinstance(error, Pruned)

    def _refuse_another_content(self) -> None:
        try:
            there = content(OmegaConf.load(self.folder / "config.yaml"))  # type: ignore[arg-type]
        except FileNotFoundError:
            return
        if differing := differences(there, content(self.cfg)):
            told = "; ".join(f"{key}: {was!r} there, {now!r} asked" for key, was, now in differing)
            raise UsageError(
                f"{self.folder}: its config.yaml is of another content ({told}); "
                "force=true starts anew and keeps it beside"
            )

    def _record_environment(self) -> None:
        """What this run began on; a resumed one adds what it goes on with."""
        from asr_ablations.environment import environment

        path, now = self.folder / "environment.json", {**environment(), "behaviour": BEHAVIOUR, "id": self.id}
        try:
            first = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            write_json(path, {**now, "data_fingerprint": self.fingerprint, "resumed": []})
            return
        write_json(path, {**first, "resumed": [*first.get("resumed", []), now]})

    def _status(self, status: str, **more: Any) -> None:
        if rank():
            return
        from asr_ablations.environment import iso

        seconds = round(time.time() - self.started, 3)
        owner = {"pid": os.getpid(), "host": socket.gethostname()}
        told = {"status": status, **owner, "started": iso(self.started), "seconds": seconds, **more}
        write_json(self.folder / "status.json", told)


def reason(error: BaseException) -> str:
    """In one line, why a run ended. Too little memory is named as such: it comes under a dozen names."""
    if isinstance(error, (KeyboardInterrupt, Stopped)):
        return str(error) or "interrupted"
    told = " ".join(f"{type(error).__name__}: {error}".split())
    lacking = ("out of memory", "can't allocate memory", "cannot allocate memory", "std::bad_alloc")
    if isinstance(error, MemoryError) or any(words in told.lower() for words in lacking):
        return f"out of memory: {told}"
    return told


def read_status(folder: Path) -> dict[str, Any] | None:
    """What a run says of itself; None where none has begun."""
    try:
        told: dict[str, Any] = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return told


def differences(there: Any, here: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """(dotted key, there, here) of every value that differs; None for what is missing."""
    if isinstance(there, dict) and isinstance(here, dict):
        keys = sorted({*there, *here}, key=str)
        return [d for key in keys for d in differences(there.get(key), here.get(key), f"{prefix}{key}.")]
    return [] if there == here else [(prefix.removesuffix("."), there, here)]


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
