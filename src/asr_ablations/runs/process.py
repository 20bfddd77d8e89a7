"""The process of a frozen config."""

import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from omegaconf import DictConfig, OmegaConf

from asr_ablations.runs.identity import fill
from asr_ablations.runs.reader import interpolation_in
from asr_ablations.tools.files import SOURCE
from asr_ablations.tools.signals import start_of, stopping_signals, when_gone
from asr_verdicts.errors import UsageError

LAUNCHER = "ASR_ABLATIONS_LAUNCHER"
"""Environment variable with the launcher's process id and the time at which it was started."""
GRACE = 60.0  # seconds an arm has to write its checkpoint once it has to stop


def announce_launcher() -> str:
    """The launcher's process, as `follow_launcher` reads it from the environment of an arm."""
    return f"{os.getpid()}:{start_of(os.getpid())}"


def follow_launcher() -> None:
    """Stop this process when the launcher that the environment names is gone: by a signal, then by force."""

    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)

    if (launcher := os.environ.get(LAUNCHER)) is not None:
        pid, _, started = launcher.partition(":")
        when_gone(int(pid), float(started), stop)


LAUNCHED = "ASR_ABLATIONS_LAUNCHED"  # environment variable with the time at which an arm was started


def command(script: Path, config: Path, devices: int = 1, threads: int | None = None) -> list[str]:
    """The command line that runs a frozen config; several ranks under torchrun: a relaunch would replay the sweep."""
    # without a log folder torchrun would leave one in the temporary folder
    options = ["--standalone", f"--nproc-per-node={devices}", f"--log-dir={os.devnull}"]
    torchrun = ["-m", "asr_ablations.runs.torchrun", *options] if devices > 1 else []
    limit = [str(threads)] if threads else []
    return [sys.executable, *torchrun, "-m", "asr_ablations.runs.process", str(script), str(config), *limit]


def child_environment() -> dict[str, str]:
    """This process's environment with the package on the path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))}


def wait_for(words: Sequence[str], environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> int:
    """Run a command in a session of its own, which ends with this process, and return its exit code. Signals to stop
    are passed on: a run writes its checkpoint, and torchrun tells its ranks.
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
    """A config that this program, or an earlier version of it, has frozen on disk."""
    cfg = OmegaConf.load(path)
    assert isinstance(cfg, DictConfig), f"{path} holds no keys and values"
    if (key := interpolation_in(OmegaConf.to_container(cfg))) is not None:
        raise UsageError(f"{path}: {key} holds an interpolation (${{…}}), and a frozen config holds values alone")
    if "max_epochs" in cfg and "model" in cfg:
        fill(cfg)
    return cfg


def main(script: str, config: str, threads: int | None = None) -> None:
    """Run the script's `main` on the frozen config, in this process."""
    follow_launcher()
    cfg = load_frozen(Path(config))
    if cfg.get("threads", "") is None:
        cfg.threads = threads
    sys.argv = [script, *cfg.overrides]  # what the record shows, and what a start under torchrun goes by
    runpy.run_path(script, run_name="arm")["main"](cfg)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
