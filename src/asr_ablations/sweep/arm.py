"""One arm of a sweep: its frozen config, its run folder, and its state while the sweep runs."""

import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.config.build import one_line
from asr_ablations.runs.folder import Run
from asr_ablations.runs.identity import content
from asr_ablations.runs.layout import OUTPUT_LOG, STATUS, frozen_config
from asr_ablations.runs.lease import LEASE_HELD_EXIT_CODE
from asr_ablations.runs.listed_arms import ListedArm, read_arms
from asr_ablations.runs.reader import Status
from asr_ablations.runs.status import DIVERGED, DONE, FAILED, status_of
from asr_ablations.tools.signals import STOPPED_EXIT_CODES
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.config import LIST, OWN, Config, ranks
from asr_verdicts.errors import UsageError
from asr_verdicts.files import write, write_json


@dataclass(frozen=True)
class FrozenArm:
    """An arm with its composed config, which later edits to config files do not change.

    config: file to which `write` saves the config. folder: the run folder. gpus: number of GPUs; None means one per
    rank if the machine has any. ranks: number of processes that train together. overrides: Hydra overrides of the arm.
    """

    name: str
    id: str
    config: Path
    folder: Path
    gpus: int | None
    ranks: int
    overrides: tuple[str, ...]
    cfg: DictConfig = field(default_factory=OmegaConf.create, compare=False, repr=False)

    @property
    def log(self) -> Path:
        """The log file of the arm's process."""
        return self.folder / OUTPUT_LOG

    @property
    def kind(self) -> tuple[str, ...]:
        """The arm's overrides without the seed."""
        return tuple(word for word in self.overrides if not word.startswith("seed="))

    def write(self) -> None:
        """Write the config to its file, which identifies the arm even if the arm never starts."""
        self.config.parent.mkdir(parents=True, exist_ok=True)
        write(self.config, OmegaConf.to_yaml(self.cfg, resolve=True))

    def as_json(self) -> dict[str, object]:
        """Return the arm's entry for the sweep's manifest."""
        values = {key: value for key, value in vars(self).items() if key != "cfg"}
        return {**values, "config": str(self.config), "folder": str(self.folder), "overrides": list(self.overrides)}


def freeze_arm(run: Run) -> FrozenArm:
    """Convert a run to an arm with the run's config."""
    cfg, config = run.cfg, frozen_config(run.folder)
    gpus = cfg.gpus if isinstance(cfg.get("gpus"), int) else None
    return FrozenArm(run.name, run.id, config, run.folder, gpus, ranks(cfg), tuple(cfg.overrides), cfg)


WAITING, QUEUED, STOPPED, ELSEWHERE = "waiting", "queued", "stopped", "elsewhere"
"""States of an arm in addition to those of its run: DONE, DIVERGED, FAILED and RUNNING."""
REFUSED = 2
"""Exit code of an arm that the machine cannot run, for example because the machine lacks a GPU."""


@dataclass
class State:
    """The state of an arm in a sweep.

    status: the run's status, or waiting, queued (waiting for a machine), stopped, or elsewhere (in another launcher)
    reason: explanation of the status; skipped: whether the arm had a result before the sweep started
    not_before: value of time.monotonic() before which the sweep does not try the arm again
    """

    arm: FrozenArm
    status: str = WAITING
    reason: str = ""
    skipped: bool = False
    not_before: float = 0.0

    @property
    def ended(self) -> bool:
        return self.status in (DONE, DIVERGED, FAILED, STOPPED)

    def finish(self, exit_code: int, kill_reason: str | None) -> None:
        """Set status and reason after the process has ended. kill_reason: why it was killed or lost, or None."""
        recorded = status_of(self.arm.folder) or Status(status="")
        reason = (recorded.reason or "") if recorded.status == FAILED else ""
        if exit_code == LEASE_HELD_EXIT_CODE:
            self.status, self.reason = ELSEWHERE, "another launcher is running it"
        elif kill_reason is None and recorded.status == FAILED and recorded.diverged is not None:
            self.status, self.reason = DIVERGED, reason
        elif exit_code == 0:
            self.status = DONE
        # with several ranks, the exit code comes from torchrun, but the recorded reason shows the interruption
        elif kill_reason is None and (exit_code in STOPPED_EXIT_CODES or reason.startswith("interrupted")):
            self.status, self.reason = STOPPED, "stopped; it can be continued"
        elif kill_reason is None and recorded.status == FAILED:
            self.status, self.reason = FAILED, reason
        else:  # the process could not record its end itself
            refused = _last_error(self.arm.log) if exit_code == REFUSED else None
            self.status, self.reason = FAILED, kill_reason or refused or _cause_of_death(exit_code)
            write_json(self.arm.folder / STATUS, as_json(replace(recorded, status=FAILED, reason=self.reason)))


def _last_error(log: Path) -> str | None:
    """Return the last error message in an arm's log, or None if it has none."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return next((line.removeprefix("error: ") for line in reversed(lines) if line.startswith("error: ")), None)


def _cause_of_death(exit_code: int) -> str:
    """Describe the signal that killed a process, or its exit code."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number == signal.SIGKILL:
        return "killed by SIGKILL, which also ends a process that takes too much memory"
    return f"killed by {signal.Signals(number).name}" if number in set(signal.Signals) else f"exit code {exit_code}"


Words = Sequence[str]
Compose = Callable[[Words], DictConfig]


def list_arms(batch: Sequence[Words], compose: Compose) -> list[list[str]]:
    """Return the overrides of every run, which combine each element of `batch` with each listed arm.

    batch: overrides of each combination of varied values, such as seeds. An arm's overrides take precedence. Runs are
    ordered by combination, so that all arms have the same seeds if the sweep stops early. Raise UsageError if the list
    of arms is invalid.
    """
    arms = read_arms(cast(Config, OmegaConf.to_container(compose(batch[0])))[LIST])
    if not arms:
        return [list(words) for words in batch]
    varied = {key for words in batch for key, value in map(_pair, words) if (key, value) not in map(_pair, batch[0])}
    names: dict[str, str] = {}
    for arm in arms:
        if both := [key for key in arm.keys if key in varied]:
            raise UsageError(f"{LIST}: {both[0]} is also varied outside the list; expected it in only one place")
        try:
            composed = content(compose(_together(batch[0], arm)))
        except MissingConfigException:
            raise  # the message already names the option and the choices
        except (UsageError, HydraException, OmegaConfBaseException) as error:
            raise UsageError(f"arm {arm.name}: {one_line(error)}") from error
        other = names.setdefault(json.dumps(composed, sort_keys=True, default=str), arm.name)
        if other != arm.name:
            raise UsageError(f"{LIST}: {other} and {arm.name} are the same experiment; expected arms that differ")
    return [_together(words, arm) for words in batch for arm in arms]


def _pair(word: str) -> tuple[str, str]:
    """Split an override into its key, without + or ~, and its value."""
    key, _, value = word.partition("=")
    return key.lstrip("+~"), value


def _together(words: Words, arm: ListedArm) -> list[str]:
    """Append an arm's overrides to `words`, and remove earlier overrides of the same keys."""
    return [*(word for word in words if _pair(word)[0] not in (*arm.keys, OWN)), *arm.overrides]
