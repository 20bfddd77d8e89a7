"""How long an arm takes from its start to its first training step, by how it is started."""

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from rich.progress import track

from asr_ablations.benchmark.timing import Timing, noise
from asr_ablations.errors import choices
from asr_ablations.sweep.arm import Arm, child_environment, command
from asr_ablations.sweep.launch import freeze
from asr_ablations.sweep.processes import LAUNCHED
from asr_ablations.sweep.runner import Runner
from asr_ablations.sweep.slots import Slots

SCRIPT = Path(__file__).resolve().parents[2] / "train.py"


def launch_times(cfg: DictConfig, *, arms: int) -> dict[str, Any]:
    """Seconds from launch to the end of the first step for `arms` short runs of the config that differ in the seed:
    median and spread over all arms but the first, the first arm's, and the whole way's.
    """
    if not isinstance(arms, int) or arms < 2:
        raise choices("benchmark.arms", arms, "a whole number, 2 or more")
    found: dict[str, Any] = {"arms": arms}
    timings: dict[str, Timing] = {}
    for name, way in {"forked": _forked, "processes": _processes, "in_one_process": _in_one_process}.items():
        with TemporaryDirectory() as folder:
            frozen = freeze([_arm(cfg, seed, folder) for seed in range(arms)])
            began = time.perf_counter()
            way(frozen)
            took = time.perf_counter() - began
            seconds = [json.loads((arm.folder / "summary.json").read_text())["launch_seconds"] for arm in frozen]
        timings[name] = Timing(tuple(seconds[1:]))
        found |= {f"{name}_median": timings[name].median, f"{name}_first": seconds[0], f"{name}_all": took}
    ratio = timings["processes"].median / timings["forked"].median
    return {**found, "processes_to_forked": ratio, "notes": noise(timings)}


def _arm(cfg: DictConfig, seed: int, folder: str) -> DictConfig:
    arm = copy.deepcopy(cfg)
    with open_dict(arm):
        del arm["benchmark"]
        arm.seed, arm.outputs, arm.sweep, arm.overrides = seed, folder, "launch", [f"seed={seed}"]
    return arm


def _forked(arms: Sequence[Arm]) -> None:
    """As a sweep does."""
    runner = Runner(SCRIPT, arms, Slots([], jobs=1, per_gpu=1), timeout=None, fail_fast=True)
    runner.run(lambda states: None)


def _processes(arms: Sequence[Arm]) -> None:
    for arm in track(arms, description="processes", transient=True):
        _quietly(command(SCRIPT, arm.config))


def _in_one_process(arms: Sequence[Arm]) -> None:
    """What an arm leaves behind reaches the next, which is why sweeps do not run so."""
    _quietly([sys.executable, "-m", "asr_ablations.benchmark.launch", *(str(arm.config) for arm in arms)])


def _quietly(words: list[str]) -> None:
    environment = {**child_environment(), LAUNCHED: repr(time.time())}
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)


def _run_all(configs: Sequence[str]) -> None:
    from asr_ablations.experiment import run

    for number, path in enumerate(configs):
        if number:
            os.environ[LAUNCHED] = repr(time.time())
        cfg: Any = OmegaConf.load(path)
        run(cfg)


if __name__ == "__main__":
    _run_all(sys.argv[1:])
