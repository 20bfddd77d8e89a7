"""From composed configs to arms that have run."""

import re
import sys
from collections.abc import Callable, Collection, Sequence

from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.plain_keys import check
from asr_ablations.runs.folder import Run
from asr_ablations.runs.listed_arms import check_arm
from asr_ablations.runs.reader import read_summary
from asr_ablations.runs.status import DIVERGED, DONE, FAILED
from asr_ablations.runs.wandb_run import sync_command
from asr_ablations.sweep.arm import STOPPED, FrozenArm, State, forget, freeze_arm
from asr_ablations.sweep.gpu_slots import machine_slots
from asr_ablations.sweep.live import LiveArms, what_varies
from asr_ablations.sweep.manifest import write_manifest
from asr_ablations.sweep.preflight import ask_wandb, check_declarations, fingerprints, is_training
from asr_ablations.sweep.runner import DetachedError, Places, Runner
from asr_ablations.tools.checks import is_number, switch
from asr_verdicts.errors import UsageError, choices

SHOW = "asr_ablations.sweep.live.print_arms"
"""The function that prints the results of a sweep, unless hydra.launcher.show names another one."""


WORST = 1.0
"""The WER of a run that diverged: no word is right, as in an empty transcript."""


class ArmsFailedError(Exception):
    """Some arms are not done; how each of them ended has been printed."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(f"not all arms are done (exit code {exit_code})")


def freeze(
    configs: Sequence[DictConfig],
    constant: Collection[str] | None = None,
    check_all: Callable[[Sequence[DictConfig]], None] | None = None,
) -> list[FrozenArm]:
    """Check every arm and write its config: edits after this change nothing.

    constant: overrides that all arms of the sweep share; check_all: of the arms together. Raises UsageError for the
    first arm that is wrong.
    """
    for cfg in configs:
        check(cfg)
    check_declarations(configs)
    if check_all is not None:
        check_all(configs)
    arms: list[FrozenArm] = []
    for cfg, fingerprint in zip(configs, fingerprints(configs), strict=True):
        _keep_previous(cfg, fingerprint)
        arm = freeze_arm(cfg, fingerprint, constant)
        Run(cfg, fingerprint, constant).status()  # refuses a folder of another content
        arms.append(arm)
    return arms


def refuse_a_plan(configs: Sequence[DictConfig]) -> None:
    """Raises UsageError where runs are to be added until there is a verdict, or a list names the arms, and another
    sweeper hands them out.
    """
    for cfg in configs:
        check_arm(cfg)
    if configs and OmegaConf.is_dict(until := configs[0].get("until")) and "_target_" in until:
        raise UsageError("until=verdict has a sweeper of its own: expected no hydra/sweeper beside it")


def plan(arms: Sequence[FrozenArm], jobs: int | None = None, per_gpu: int | str = 1) -> None:
    """Print what the arms would cost on this machine. jobs, per_gpu: as in `machine_slots`."""
    from asr_ablations.sweep.plan import show_plan

    slots = machine_slots(jobs, per_gpu, arms)
    show_plan(arms, slots.jobs, slots.threads(len(arms)))
    forget(arms)


def run(
    arms: Sequence[FrozenArm],
    metadata: dict[str, object],
    places: Callable[[Sequence[FrozenArm]], Places],
    *,
    timeout: float | None,
    show: str | None,
    fail_fast: bool,
) -> list[State]:
    """Write the sweep's manifest (`metadata` and the arms), run the arms, display them and report each result.

    Arms of the same content, which a search may propose, are run once; the states are in the order of `arms` all the
    same. metadata: how the sweep was started; places: where these arms run; timeout: minutes for each arm, None for no
    limit; show: the name of a function that prints the results, given the folders; fail_fast: the first failure stops
    the other arms.

    Raises UsageError for values out of range, ArmsFailedError where a signal stopped the sweep, and DetachedError where
    its arms go on without it.
    """
    different = list({arm.id: arm for arm in arms}.values())
    _check_timeout(timeout)
    switch("hydra.launcher.fail_fast", fail_fast)
    runner = Runner(different, places(different), timeout=timeout, fail_fast=fail_fast)
    if different:
        write_manifest(different[0].folder.parent, different, metadata)
    ask_wandb(different)
    try:
        with LiveArms() as live:
            states = runner.run(live.show)
    except DetachedError as detached:
        print(detached, flush=True)
        raise
    get_method(show or SHOW)([arm.folder for arm in different])
    _say_where_logged(different)
    report_unfinished(states)
    if runner.stop_signal is not None:
        raise ArmsFailedError(128 + runner.stop_signal)
    by_id = {state.arm.id: state for state in states}
    return [by_id[arm.id] for arm in arms]


def _say_where_logged(arms: Sequence[FrozenArm]) -> None:
    """Print the address at which W&B has the arms, and the command that sends those that are offline."""
    folders = [arm.folder for arm in arms]
    printed = "".join(arm.log.read_text(encoding="utf-8", errors="replace") for arm in arms if arm.log.exists())
    for address in sorted({*re.findall(r"^W&B +(https?://\S+)/runs/", printed, re.MULTILINE)}):
        print(f"W&B: {address} (group {folders[0].parent.name})")
    if command := sync_command(folders):
        print(f"W&B later: {command}")


def objective(state: State) -> float:
    """The figure that a search minimises: the best WER on the first validation set, WORST for an arm that diverged, NaN
    for a measurement, which has none. Raises ArmsFailedError for an arm that has no result.
    """
    if state.status == DIVERGED:
        return WORST
    if state.status != DONE:
        raise ArmsFailedError(1)
    try:
        summary = read_summary(state.arm.folder)
    except FileNotFoundError:
        return float("nan")
    assert summary.best_validation_wer is not None
    return summary.best_validation_wer


def report_unfinished(states: Sequence[State]) -> None:
    """Print how many arms were skipped, and which diverged, failed or were stopped, with reasons and log files."""
    names = what_varies([state.arm.overrides for state in states])
    failed = [(name, state) for name, state in zip(names, states, strict=True) if state.status == FAILED]
    stopped = sum(state.status == STOPPED for state in states)
    diverged = [(name, state) for name, state in zip(names, states, strict=True) if state.status == DIVERGED]
    skipped = sum(state.skipped and state.status == DONE for state in states)
    if skipped:
        print(f"{skipped} of {len(states)} arms were already done")
    if diverged:
        print(f"{len(diverged)} of {len(states)} arms diverged, which is a result: force=true runs it again")
    for name, state in diverged:
        print(f"  {name}: {state.reason}")
    if failed:
        print(f"{len(failed)} of {len(states)} arms failed; the same command runs them again", file=sys.stderr)
    for name, state in failed:
        print(f"  {name}: {state.reason}\n    {state.arm.log}", file=sys.stderr)
    if stopped:
        print(f"{stopped} of {len(states)} arms were stopped; the same command continues them", file=sys.stderr)


def _keep_previous(cfg: DictConfig, fingerprint: str) -> None:
    """Move an existing folder aside where the run is to start anew (force=true), or is a measurement."""
    if is_training(cfg) and not cfg.get("force"):
        return
    Run(cfg, fingerprint).keep_previous()
    if "force" in cfg:
        cfg.force = False


def _check_timeout(timeout: object) -> None:
    if timeout is not None and not (is_number(timeout) and timeout > 0):
        raise choices("hydra.launcher.timeout", timeout, "minutes above 0, or null for no limit")
