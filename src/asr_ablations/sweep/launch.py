"""Freeze composed configs as arms, and run them."""

import re
import sys
from collections.abc import Callable, Collection, Sequence

from hydra.utils import get_method
from omegaconf import DictConfig

from asr_ablations.config.plain_keys import check
from asr_ablations.runs.folder import Run
from asr_ablations.runs.reader import read_summary
from asr_ablations.runs.status import DIVERGED, DONE, FAILED
from asr_ablations.runs.wandb_run import sync_command
from asr_ablations.sweep.arm import STOPPED, FrozenArm, State, freeze_arm
from asr_ablations.sweep.live import LiveArms, label_arms, print_arms
from asr_ablations.sweep.manifest import write_manifest
from asr_ablations.sweep.preflight import ask_wandb, check_declarations, fingerprints, is_training
from asr_ablations.sweep.runner import DetachedError, Places, Runner
from asr_ablations.tools.checks import is_number, switch
from asr_verdicts.errors import choices

WORST = 1.0
"""WER that a search assumes for a diverged run, equal to the WER of empty transcripts."""


class ArmsFailedError(Exception):
    """Some arms are not done. Their reasons have already been printed."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(f"not all arms are done (exit code {exit_code})")


def freeze(configs: Sequence[DictConfig], constant: Collection[str] | None = None) -> list[FrozenArm]:
    """Check configs, and freeze them as arms that later edits do not change. Raise UsageError if a config is wrong.

    constant: overrides that all arms share; None for a run outside a sweep.
    """
    for cfg in configs:
        check(cfg)
    check_declarations(configs)
    arms: list[FrozenArm] = []
    for cfg, fingerprint in zip(configs, fingerprints(configs), strict=True):
        if cfg.get("force") or not is_training(cfg):  # measurements are always repeated
            Run(cfg, fingerprint, constant).keep_previous()
            if "force" in cfg:
                cfg.force = False
        record = Run(cfg, fingerprint, constant)
        record.status()  # raises UsageError if the folder has a different config
        arms.append(freeze_arm(record))
    return arms


def run(
    arms: Sequence[FrozenArm],
    metadata: dict[str, object],
    places: Callable[[Sequence[FrozenArm]], Places],
    *,
    timeout: float | None,
    show: str | None,
    fail_fast: bool,
) -> list[State]:
    """Write the manifest, run and display the arms, and print their results. Return the states in the order of `arms`.

    Equal arms, which a search may propose, run only once. Raise ArmsFailedError if a signal stopped the sweep, and
    DetachedError if the arms continue after this command. metadata: how the sweep was started, for the manifest.
    timeout: minutes after which an arm is killed, or None. show: dotted name of a function that prints the results.
    """
    different = list({arm.id: arm for arm in arms}.values())
    if timeout is not None and not (is_number(timeout) and timeout > 0):
        raise choices("hydra.launcher.timeout", timeout, "minutes above 0, or null for no limit")
    switch("hydra.launcher.fail_fast", fail_fast)
    runner = Runner(different, places(different), timeout=timeout, fail_fast=fail_fast)
    write_manifest(different[0].folder.parent, different, metadata)
    ask_wandb(different)
    try:
        with LiveArms() as live:
            states = runner.run(live.show)
    except DetachedError as detached:
        print(detached, flush=True)
        raise
    (get_method(show) if show else print_arms)([arm.folder for arm in different])
    _print_wandb(different)
    report_unfinished(states)
    if runner.stop_signal is not None:
        raise ArmsFailedError(128 + runner.stop_signal)
    by_id = {state.arm.id: state for state in states}
    return [by_id[arm.id] for arm in arms]


def _print_wandb(arms: Sequence[FrozenArm]) -> None:
    """Print the web address of the arms' W&B runs, and the command that uploads offline runs."""
    printed = "".join(arm.log.read_text(encoding="utf-8", errors="replace") for arm in arms if arm.log.exists())
    for address in sorted({*re.findall(r"^W&B +(https?://\S+)/runs/", printed, re.MULTILINE)}):
        print(f"W&B: {address} (group {arms[0].folder.parent.name})")
    if command := sync_command([arm.folder for arm in arms]):
        print(f"W&B later: {command}")


def objective(state: State) -> float:
    """Return an arm's best WER on the first validation set, WORST if it diverged, or NaN for a measurement."""
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
    """Print how many arms were skipped or stopped, and which arms diverged or failed, with reasons and log files."""
    names = label_arms([state.arm.overrides for state in states])
    if skipped := sum(state.skipped and state.status == DONE for state in states):
        print(f"{skipped} of {len(states)} arms were already done")
    for status, head, stream in (
        (DIVERGED, "diverged, which is a result: force=true runs them again", sys.stdout),
        (FAILED, "failed; the same command runs them again", sys.stderr),
    ):
        ended = [(name, state) for name, state in zip(names, states, strict=True) if state.status == status]
        if ended:
            print(f"{len(ended)} of {len(states)} arms {head}", file=stream)
        for name, state in ended:
            print(f"  {name}: {state.reason}" + (f"\n    {state.arm.log}" if status == FAILED else ""), file=stream)
    if stopped := sum(state.status == STOPPED for state in states):
        print(f"{stopped} of {len(states)} arms were stopped; the same command continues them", file=sys.stderr)
