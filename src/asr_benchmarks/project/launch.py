"""Measure the time from an arm's launch to the end of its first step, for three ways to launch arms."""

import copy
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from omegaconf import DictConfig, open_dict

from asr_ablations.runs.process import LAUNCHED, child_environment, command, load_frozen
from asr_ablations.runs.reader import read_summary
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.launch import freeze
from asr_ablations.sweep.runner import Runner
from asr_ablations.sweep.this_machine import Machine, Slots
from asr_ablations.tools.checks import whole
from asr_benchmarks.tables import Result
from asr_benchmarks.timing import Timing, check_counts, in_turn, noise_notes

SCRIPT = Path(__file__).resolve().parents[2] / "train.py"


def launch_times(cfg: DictConfig, *, arms: int, repeats: int) -> Result:
    """Measure the seconds from a short run's launch to the end of its first step, for three ways to launch runs.

    The figures are medians over the first arms, over all later arms, and over the times until all arms are trained.
    """
    whole("benchmark.arms", arms, 2)
    check_counts(repeats=repeats)
    # one process for all arms, which sweeps avoid because an arm could affect the next one
    together = [sys.executable, "-m", "asr_benchmarks.project.launch"]
    ways: dict[str, Callable[[Sequence[FrozenArm]], None]] = {
        "forked": _fork,
        "processes": lambda frozen: _run_quietly(*(command(SCRIPT, arm.config) for arm in frozen)),
        "in_one_process": lambda frozen: _run_quietly([*together, *(str(arm.config) for arm in frozen)]),
    }
    launches: dict[str, list[list[float]]] = {name: [] for name in ways}
    calls = {name: partial(_time_way, cfg, way, arms, launches[name]) for name, way in ways.items()}
    timings = in_turn(calls, steps=repeats, warmup=0, title="ways to start an arm")
    later = {name: Timing(tuple(s for by_arm in times for s in by_arm[1:])) for name, times in launches.items()}
    figures: dict[str, object] = {"arms": arms, "repeats": repeats}
    for name, times in launches.items():
        figures[f"{name}_median"] = later[name].median
        figures[f"{name}_first"] = statistics.median(by_arm[0] for by_arm in times)
        figures[f"{name}_all"] = timings[name].median
    figures["processes_to_forked"] = later["processes"].median / later["forked"].median
    return Result(figures, notes=noise_notes(later))


def _time_way(
    cfg: DictConfig, way: Callable[[Sequence[FrozenArm]], None], arms: int, launches: list[list[float]]
) -> float:
    """Return the seconds until all arms are trained. Append a list of the arms' launch times to `launches`."""
    with TemporaryDirectory() as folder:
        configs = [copy.deepcopy(cfg) for _ in range(arms)]
        for seed, arm in enumerate(configs):
            with open_dict(arm):
                del arm["benchmark"]
                arm.seed, arm.outputs, arm.sweep, arm.overrides = seed, folder, "launch", [f"seed={seed}"]
        frozen = freeze(configs)
        for each in frozen:
            each.write()
        began = time.perf_counter()
        way(frozen)
        seconds = time.perf_counter() - began
        launches.append([read_summary(arm.folder).launch_seconds or 0.0 for arm in frozen])
    return seconds


def _fork(arms: Sequence[FrozenArm]) -> None:
    """Start the arms in forked processes, as a sweep does."""
    runner = Runner(arms, Machine(SCRIPT, arms, Slots([], jobs=1, per_gpu=1)), timeout=None, fail_fast=True)
    runner.run(lambda states: None)


def _run_quietly(*commands: list[str]) -> None:
    for words in commands:
        environment = {**child_environment(), LAUNCHED: repr(time.time())}
        subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)


def _run_all(configs: Sequence[str]) -> None:
    from asr_ablations.experiment.run import run

    for number, path in enumerate(configs):
        if number:
            os.environ[LAUNCHED] = repr(time.time())
        run(load_frozen(Path(path)))


if __name__ == "__main__":
    _run_all(sys.argv[1:])
