"""From composed configs to arms that have run."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hydra.utils import get_method
from omegaconf import DictConfig

from asr_ablations.config.checks import check
from asr_ablations.runs.folder import Run
from asr_ablations.runs.layout import SWEEP
from asr_ablations.runs.reader import UnreadableFileError, read_summary, read_sweep
from asr_ablations.sweep.arm import Arm
from asr_ablations.sweep.live import LiveArms
from asr_ablations.sweep.preflight import fingerprints, is_training
from asr_ablations.sweep.runner import Runner
from asr_ablations.sweep.slots import slots
from asr_ablations.sweep.states import DONE, FAILED, STOPPED, State
from asr_ablations.sweep.terminal import what_varies
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write_json
from asr_ablations.tools.machine import iso

SHOW = "asr_ablations.sweep.terminal.print_arms"
"""What tells the end of a sweep, unless hydra.launcher.show names another."""


class ArmsFailedError(Exception):
    """Some arms are not done; what became of them has been told."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(f"not all arms are done (exit code {exit_code})")


def freeze(configs: Sequence[DictConfig]) -> list[Arm]:
    """Check every arm and write its config: what is edited from here on changes nothing.

    Raises UsageError for the first arm that is wrong.
    """
    for cfg in configs:
        check(cfg)
    arms: list[Arm] = []
    for cfg, fingerprint in zip(configs, fingerprints(configs), strict=True):
        _put_aside(cfg, fingerprint)
        arm = Arm.freeze(cfg, fingerprint)
        Run(cfg, fingerprint).status()  # refuses a folder of another content
        arms.append(arm)
    return arms


def plan(arms: Sequence[Arm], jobs: int | None = None, per_gpu: int = 1) -> None:
    """Say what the arms would cost on this machine."""
    from asr_ablations.sweep.plan import show_plan

    show_plan(arms, slots(jobs, per_gpu))


def run(script: Path, arms: Sequence[Arm], told: dict[str, Any], options: dict[str, Any]) -> list[State]:
    """Write the sweep's manifest with what is `told` of it, run the arms, show them, and tell the end of each. Arms of
    the same content, as a search may ask for, are run once.
    """
    asked, arms = arms, list({arm.id: arm for arm in arms}.values())
    if arms:
        _write_manifest(arms[0].folder.parent, arms, told)
    places = slots(options["jobs"], options["per_gpu"])
    _refuse_too_many_gpus(arms, places.gpus)
    runner = Runner(script, arms, places, timeout=_minutes(options["timeout"]), fail_fast=bool(options["fail_fast"]))
    with LiveArms() as live:
        states = runner.run(live.show)
    get_method(options.get("show") or SHOW)([arm.folder for arm in arms])
    _tell_failures(states)
    if runner.asked_to_stop is not None:
        raise ArmsFailedError(128 + runner.asked_to_stop)
    by_id = {state.arm.id: state for state in states}
    return [by_id[arm.id] for arm in asked]


def _tell_failures(states: Sequence[State]) -> None:
    names = what_varies([state.arm.overrides for state in states])
    failed = [(name, state) for name, state in zip(names, states, strict=True) if state.status == FAILED]
    stopped = sum(state.status == STOPPED for state in states)
    skipped = sum(state.skipped for state in states)
    if skipped:
        print(f"{skipped} of {len(states)} arms were done already")
    if failed:
        print(f"{len(failed)} of {len(states)} arms failed; the same command tries them again", file=sys.stderr)
    for name, state in failed:
        print(f"  {name}: {state.reason}\n    {state.arm.log}", file=sys.stderr)
    if stopped:
        print(f"{stopped} of {len(states)} arms were stopped; the same command goes on with them", file=sys.stderr)


def _put_aside(cfg: DictConfig, fingerprint: str) -> None:
    """Where a run is to start anew, or is a measurement: keep what there is beside."""
    if is_training(cfg) and not cfg.get("force"):
        return
    Run(cfg, fingerprint).keep_previous()
    if "force" in cfg:
        cfg.force = False


def _write_manifest(sweep: Path, arms: Sequence[Arm], launch: dict[str, Any]) -> None:
    """The latest launch, and the arms of all launches under this name."""
    try:
        before = read_sweep(sweep)["arms"]
    except (FileNotFoundError, UnreadableFileError, KeyError):
        before = []
    told = {arm["id"]: arm for arm in before}
    for arm in arms:
        row = {**asdict(arm), "config": str(arm.config), "folder": str(arm.folder), "overrides": list(arm.overrides)}
        told[arm.id] = row
    write_json(sweep / SWEEP, {**launch, "started": iso(time.time()), "arms": list(told.values())})


def _refuse_too_many_gpus(arms: Sequence[Arm], gpus: Sequence[str]) -> None:
    for arm in arms:
        if arm.gpus is not None and arm.gpus > len(gpus):
            raise UsageError(f"arm {arm.name}: gpus={arm.gpus}, this machine has {len(gpus)}")


def _minutes(timeout: Any) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise UsageError(f"hydra.launcher.timeout={timeout}: expected minutes above 0, or null for no limit")
    return float(timeout)


def objective(state: State) -> float:
    """What a search makes small: the best WER on the first validation set. Raises ArmsFailedError without one."""
    if state.status != DONE:
        raise ArmsFailedError(1)
    try:
        summary = read_summary(state.arm.folder)
    except FileNotFoundError:
        return float("nan")  # a measurement has none
    return float(summary["best_validation_wer"])
