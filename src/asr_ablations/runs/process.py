"""How a frozen config becomes a process."""

import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from asr_ablations.runs.watchdog import LAUNCHER, announce_launcher
from asr_ablations.tools.paths import SOURCE


def command(script: Path, config: Path, devices: int = 1, threads: int | None = None) -> list[str]:
    """The command line that runs a frozen config; several processes go under torchrun, never under a relaunch of
    sys.argv, which would replay the sweep in every rank.
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={devices}"] if devices > 1 else []
    limit = [str(threads)] if threads else []
    return [sys.executable, *torchrun, "-m", "asr_ablations.runs.process", str(script), str(config), *limit]


def child_environment() -> dict[str, str]:
    """This process's environment with the package on the path."""
    source = str(SOURCE)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}


def main(script: str, config: str, threads: int | None = None) -> None:
    """Run the script's `main` on the frozen config, in this process."""
    from asr_ablations.runs.watchdog import follow_launcher

    follow_launcher()
    cfg: Any = OmegaConf.load(config)
    if cfg.get("threads", "") is None:
        cfg.threads = threads
    sys.argv = [script, *cfg.overrides]  # what the record shows, and what a start under torchrun goes by
    runpy.run_path(script, run_name="arm")["main"](cfg)


def _from_command_line(arguments: Sequence[str]) -> None:
    script, config, *threads = arguments
    main(script, config, int(threads[0]) if threads else None)


def wait_for(words: Sequence[str]) -> int:
    """Exit code of a command in a session of its own, which is asked to stop when this process is, and ends with it."""
    process = subprocess.Popen(
        words, env={**child_environment(), LAUNCHER: announce_launcher()}, start_new_session=True
    )
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.terminate()  # torchrun passes it on to its ranks


LAUNCHED = "ASR_ABLATIONS_LAUNCHED"
"""Environment variable with the time at which an arm was started."""
