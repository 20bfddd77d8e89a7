"""Start processes that run a frozen config, and stop them when their launcher ends."""

import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.identity import fill
from asr_ablations.runs.reader import interpolation_in
from asr_ablations.tools.files import SOURCE
from asr_ablations.tools.signals import start_of, stopping_signals, when_gone
from asr_verdicts.errors import UsageError

LAUNCHER = "ASR_ABLATIONS_LAUNCHER"
"""Environment variable with the process id and start time of the launcher."""
GRACE = 60.0  # seconds for an arm to write its checkpoint before it is killed


def announce_launcher() -> str:
    """Return the id and start time of this process as a value for the environment variable LAUNCHER."""
    return f"{os.getpid()}:{start_of(os.getpid())}"


def follow_launcher() -> None:
    """Stop this process once its launcher has ended: first with SIGTERM, and after GRACE seconds by force."""

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)

    if (launcher := os.environ.get(LAUNCHER)) is not None:
        pid, _, started = launcher.partition(":")
        when_gone(int(pid), float(started), stop)


LAUNCHED = "ASR_ABLATIONS_LAUNCHED"  # environment variable with an arm's start time


def command(script: Path, config: Path, devices: int = 1, threads: int | None = None) -> list[str]:
    """Return the command line that runs a frozen config. With several devices, torchrun starts one rank for each."""
    # Lightning would start ranks by repeating the user's command, which may be a whole sweep. Without a log folder,
    # torchrun would create one in the temporary folder.
    options = ["--standalone", f"--nproc-per-node={devices}", f"--log-dir={os.devnull}"]
    torchrun = ["-m", "asr_ablations.runs.torchrun", *options] if devices > 1 else []
    limit = [str(threads)] if threads else []
    return [sys.executable, *torchrun, "-m", "asr_ablations.runs.process", str(script), str(config), *limit]


def child_environment(source: Path = SOURCE) -> dict[str, str]:
    """Return this process's environment variables, with the folder `source` first in PYTHONPATH."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))}


def wait_for(words: Sequence[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """Run a command in a new session, and return its exit code. The command stops when this process ends.

    Stop signals are forwarded to the command, which lets a run write its checkpoint and torchrun stop its ranks.
    """
    variables = {**(environment or child_environment()), LAUNCHER: announce_launcher()}
    process = subprocess.Popen(words, env=variables, cwd=cwd, start_new_session=True)

    def stop(number: int, frame: FrameType | None) -> None:
        if process.poll() is None:
            process.terminate()

    before = {number: signal.signal(number, stop) for number in stopping_signals()}
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def load_frozen(path: Path) -> DictConfig:
    """Load a frozen config, and add default values for keys that an earlier version of the program lacked."""
    cfg = OmegaConf.load(path)
    assert isinstance(cfg, DictConfig), f"{path} does not contain keys and values"
    if (key := interpolation_in(OmegaConf.to_container(cfg))) is not None:
        raise UsageError(f"{path}: {key} contains an interpolation (${{…}}); expected a value in a frozen config")
    if "max_epochs" in cfg and "model" in cfg:
        fill(cfg)
    return cfg


def keep_nice() -> None:
    """Give this session the niceness of this process. Linux weighs sessions against each other, each with 0."""
    if (niceness := os.nice(0)) > 0:
        with suppress(OSError):  # Linux without autogroups
            Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")


def main(script: str, config: str, threads: int | None = None) -> None:
    """Run a script's `main` on a frozen config in this process. threads: CPU threads if the config sets none."""
    follow_launcher()
    keep_nice()
    cfg = load_frozen(Path(config))
    if cfg.get("threads", "") is None:
        cfg.threads = threads
    sys.argv = [script, *cfg.overrides]  # environment.json records it as the command
    runpy.run_path(script, run_name="arm")["main"](cfg)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
