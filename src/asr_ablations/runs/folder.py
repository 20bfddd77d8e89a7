"""A run's identity, folder, status and record."""

import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.identity import BEHAVIOUR, content, differences, identity, short_name
from asr_ablations.runs.lease import Claim, ClaimedError, owner
from asr_ablations.tools.errors import Stopped, UsageError
from asr_ablations.tools.files import slug, write, write_json
from asr_ablations.tools.machine import rank


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
        from asr_ablations.runs.environment import environment

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
        from asr_ablations.tools.machine import iso

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
