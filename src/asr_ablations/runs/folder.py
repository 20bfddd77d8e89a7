"""A run in progress: its folder, lease, status and environment."""

import os
import socket
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs import layout
from asr_ablations.runs.environment import environment
from asr_ablations.runs.identity import BEHAVIOUR, content, derived_keys, identity, short_name
from asr_ablations.runs.lease import LEASE_HELD_EXIT_CODE, Lease, LeaseHeldError, owner
from asr_ablations.runs.reader import Status, read_config, read_environment, recorded_id
from asr_ablations.runs.status import (
    DONE,
    FAILED,
    PRUNED,
    RESULTS,
    RUNNING,
    Diverged,
    Pruned,
    fate_of,
    reason,
    status_of,
)
from asr_ablations.tools.errors import stop_before
from asr_ablations.tools.files import free_name, remove_temporary
from asr_ablations.tools.machine import iso, rank
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.config import differences
from asr_verdicts.errors import UsageError
from asr_verdicts.files import folder_name, write, write_json


class Run:
    """A run and its folder, as a context manager that holds the lease and records the status.

    The status is running, then done, pruned, or failed with a reason. Only rank 0 writes files.
    fingerprint: a hash of the data; "" if unknown.
    constant: overrides that all runs of the sweep share, and that the folder name omits; None outside a sweep.
    """

    def __init__(self, cfg: DictConfig, fingerprint: str = "", constant: Collection[str] | None = None) -> None:
        self.cfg, self.fingerprint = cfg, fingerprint
        self.id = identity(cfg, fingerprint)
        sweep = Path(str(cfg.outputs)) / folder_name(str(cfg.sweep))
        # found by id, because the folder name depends on the order of overrides and on machine settings
        existing = [path for path in sorted(sweep.glob(f"*-{self.id}")) if path.is_dir()]
        existing = existing or [path for path in layout.runs_in(sweep) if self._is_renamed(path)]
        self.folder = next(iter(existing), sweep / f"{short_name(_list_overrides(cfg), constant)}-{self.id}")
        self.name = self.folder.name.removesuffix(f"-{self.id}")
        self.checkpoints = self.folder / layout.CHECKPOINTS
        self.started = time.time()
        self.phases: dict[str, float] = {}

        def stop(reason: str) -> None:
            print(f"error: {self.folder}: {reason}; this process stops", file=sys.stderr, flush=True)
            os._exit(LEASE_HELD_EXIT_CODE)

        self._lease = Lease(self.folder, lost=stop)

    def _is_renamed(self, folder: Path) -> bool:
        """Return whether a folder with another name holds this run."""
        return not layout.KEPT_ASIDE.search(folder.name) and recorded_id(folder) == self.id

    def status(self) -> str | None:
        """Return the recorded status; None before the first start. Raises UsageError if the recorded config differs."""
        if (status := status_of(self.folder)) is None:
            return None
        with suppress(FileNotFoundError):
            recorded = content(OmegaConf.create(read_config(self.folder)))
            if changes := differences(recorded, content(self.cfg)):
                listed = "; ".join(f"{key}: {before!r} there, {now!r} now" for key, before, now in changes)
                raise UsageError(
                    f"{self.folder}: its {layout.CONFIG} differs from this config ({listed}); "
                    "force=true starts the run again and keeps the old one next to it"
                )
        return status.status

    def keep_previous(self) -> Path | None:
        """Rename an earlier run's folder to <folder>.1, .2, … and return the new path; None if there is no earlier run.

        Raises LeaseHeldError if a process is working on the run.
        """
        if not self.folder.exists():
            return None
        if holder := owner(self.folder):
            raise LeaseHeldError(f"{self.folder.name}: {holder}")
        return self.folder.rename(free_name(self.folder))

    def __enter__(self) -> "Run":
        if rank():
            return self
        self._lease.take()
        if fate_of(self.folder).state in RESULTS:  # another process has just finished the run
            self._lease.release()
            raise LeaseHeldError(f"{self.folder.name}: another process has just finished it")
        self.folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, self.checkpoints):
            remove_temporary(folder)
        if not (self.folder / layout.CONFIG).exists():
            write(self.folder / layout.OVERRIDES, "".join(f"{line}\n" for line in self.cfg.overrides))
            write(self.folder / layout.CONFIG, OmegaConf.to_yaml(self.cfg, resolve=True))
        self._record_environment()
        self._record_status(RUNNING)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Diverged):
            self._record_status(FAILED, str(error), error.step)
        elif isinstance(error, Pruned):
            self._record_status(PRUNED, str(error))
        else:
            self._record_status(FAILED if error else DONE, reason(stop_before(error) or error) if error else None)
        self._lease.release()
        return isinstance(error, Pruned)

    def _record_environment(self) -> None:
        """Record the environment of this session, which starts or resumes the run."""
        current = replace(environment(), behaviour=BEHAVIOUR, id=self.id)
        try:
            recorded = read_environment(self.folder)
        except FileNotFoundError:
            derived = derived_keys(read_config(self.folder))
            recorded = replace(current, derived=derived, data_fingerprint=self.fingerprint, resumed=[])
        else:
            recorded = replace(recorded, resumed=[*(recorded.resumed or []), current])
        write_json(self.folder / layout.ENVIRONMENT, as_json(recorded))

    def _record_status(self, name: str, reason: str | None = None, diverged: int | None = None) -> None:
        if rank():
            return
        status = Status(
            status=name,
            pid=os.getpid(),
            host=socket.gethostname(),
            started=iso(self.started),
            seconds=round(time.time() - self.started, 3),
            reason=reason,
            diverged=diverged,
        )
        write_json(self.folder / layout.STATUS, as_json(status))


def _list_overrides(cfg: DictConfig) -> list[str]:
    """Return a run's overrides. A listed arm's name comes first and replaces the overrides that it contains."""
    arm = [] if cfg.get("arm") is None else [str(cfg.arm)]
    choices = arm[0].split(", ") if arm else []
    return [*arm, *(override for override in cfg.overrides if override not in choices)]
