"""How long an arm takes from its start to its first training step, by how it is started."""

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
from typing import Any

from omegaconf import DictConfig, open_dict

from asr_ablations.runs.process import LAUNCHED, child_environment, command, load_frozen
from asr_ablations.runs.reader import read_summary
from asr_ablations.sweep.arm import FrozenArm
from asr_ablations.sweep.launch import freeze
from asr_ablations.sweep.runner import Runner
from asr_ablations.sweep.slots import Slots
from asr_ablations.tools.errors import choices
from asr_benchmarks.timing import Timing, check, in_turn, noise

SCRIPT = Path(__file__).resolve().parents[2] / "train.py"


def launch_times(cfg: DictConfig, *, arms: int, repeats: int) -> dict[str, Any]:
    """Seconds from launch to the end of the first step for `arms` short runs of the config that differ in the seed,
    `repeats` times in turn: median over all arms but the first of each time; medians of the first ones and of the
    whole way's.
    """
    if not isinstance(arms, int) or arms < 2:
        raise choices("benchmark.arms", arms, "a whole number, 2 or more")
    check(repeats=repeats)
    ways = {"forked": _forked, "processes": _processes, "in_one_process": _in_one_process}
    seen: dict[str, list[list[float]]] = {name: [] for name in ways}
    calls = {name: partial(_started, cfg, way, arms, seen[name]) for name, way in ways.items()}
    whole = in_turn(calls, steps=repeats, warmup=0, title="ways to start an arm")
    later = {name: Timing(tuple(s for seconds in times for s in seconds[1:])) for name, times in seen.items()}
    found: dict[str, Any] = {"arms": arms, "repeats": repeats}
    for name, times in seen.items():
        first = statistics.median(seconds[0] for seconds in times)
        found |= {f"{name}_median": later[name].median, f"{name}_first": first, f"{name}_all": whole[name].median}
    ratio = later["processes"].median / later["forked"].median
    return {**found, "processes_to_forked": ratio, "notes": noise(later)}


def _started(cfg: DictConfig, way: Callable[[Sequence[FrozenArm]], None], arms: int, seen: list[list[float]]) -> float:
    """Seconds of the whole; those of each arm are added to `seen`."""
    with TemporaryDirectory() as folder:
        frozen = freeze([_arm(cfg, seed, folder) for seed in range(arms)])
        began = time.perf_counter()
        way(frozen)
        took = time.perf_counter() - began
        seen.append([read_summary(arm.folder)["launch_seconds"] for arm in frozen])
    return took


def _arm(cfg: DictConfig, seed: int, folder: str) -> DictConfig:
    arm = copy.deepcopy(cfg)
    with open_dict(arm):
        del arm["benchmark"]
        arm.seed, arm.outputs, arm.sweep, arm.overrides = seed, folder, "launch", [f"seed={seed}"]
    return arm


def _forked(arms: Sequence[FrozenArm]) -> None:
    """As a sweep does."""
    runner = Runner(SCRIPT, arms, Slots([], jobs=1, per_gpu=1), timeout=None, fail_fast=True)
    runner.run(lambda states: None)


def _processes(arms: Sequence[FrozenArm]) -> None:
    for arm in arms:
        _quietly(command(SCRIPT, arm.config))


def _in_one_process(arms: Sequence[FrozenArm]) -> None:
    """What an arm leaves behind reaches the next, which is why sweeps do not run so."""
    _quietly([sys.executable, "-m", "asr_benchmarks.project.launch", *(str(arm.config) for arm in arms)])


def _quietly(words: list[str]) -> None:
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
