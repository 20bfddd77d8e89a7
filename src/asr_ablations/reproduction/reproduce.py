"""Load a finished run with its recorded code, run it again, and judge the result."""

import itertools
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from asr_ablations.config.compose import compose
from asr_ablations.config.plain_keys import check
from asr_ablations.reproduction.verdict import ReproductionVerdict, compare_bits, find_causes, judge, measure_noise
from asr_ablations.runs.checkpoint import weights_hash
from asr_ablations.runs.identity import fill
from asr_ablations.runs.layout import (
    CONFIG,
    ENVIRONMENT,
    REPRODUCTION,
    REQUEST,
    STATUS,
    is_run,
    last_checkpoint,
    runs_in,
)
from asr_ablations.runs.lease import Lease, LeaseHeldError, owner
from asr_ablations.runs.process import child_environment, command, load_frozen, wait_for
from asr_ablations.runs.reader import read_status
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.signals import STOPPED_EXIT_CODES, STOPPING
from asr_verdicts.config import ranks
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, write, write_json
from asr_verdicts.record import Code, Record


def load_original(folder: Path) -> Record:
    """Read a finished run. Raise UsageError for any other folder; the message explains what the folder is."""
    folder = folder.resolve()
    example = "expected a run folder, like outputs/<sweep>/<run>-<hash>"
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; {example}")
    if not is_run(folder):
        if runs := runs_in(folder):
            raise UsageError(f"{folder}: this is a sweep's folder; expected one of its runs, like {runs[0].name}")
        raise UsageError(f"{folder}: not a run folder (it has no {STATUS}); {example}")
    if reason := why_unfinished(folder):
        raise UsageError(f"{folder}: not finished ({reason}); the command that started it continues it")
    return read_run(folder)


def announce(original: Record, repository: Path, *, trust: bool) -> None:
    """Print which code `--checkout` will run. Raise UsageError for an untrusted folder of another user or machine."""
    commit, diff = _read_code(original.environment.code)
    # git quotes the names; nothing is applied
    listed = _git(repository, "apply", "--numstat", "-", text=diff)[0] if diff else ""
    files = ", ".join(line.split("\t", 2)[-1] for line in listed.split("\n") if line)
    print(f"--checkout runs commit {commit}" + (f", with uncommitted changes of {files}" if diff else ""), flush=True)
    folder, host = original.folder, read_status(original.folder).host
    paths = (folder, folder / CONFIG, folder / ENVIRONMENT, folder / STATUS)
    reason = "it belongs to another user" if any(path.stat().st_uid != os.getuid() for path in paths) else ""
    if host != socket.gethostname():
        reason = f"written on the machine {host!r}"
    if reason and not trust:
        raise UsageError(f"--checkout: {folder}: {reason}; --trust runs its recorded code anyway")


def _read_code(code: Code) -> tuple[str, str]:
    """Return commit and uncommitted changes. Raise UsageError for anything else, which git might take for an option."""
    commit, diff = code.commit or "", code.dirty_diff or ""
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise UsageError("--checkout: the run's environment.json names no commit: it did not run from a git checkout")
    return commit, diff


@contextmanager
def checked_out(repository: Path, code: Code) -> Iterator[Path]:
    """Yield a folder with the recorded commit and its uncommitted changes; it is removed afterwards.

    Raise UsageError outside git, for an unknown commit, and for changes that do not apply.
    """
    commit, diff = _read_code(code)
    with tempfile.TemporaryDirectory(prefix="reproduce-") as temporary:
        tree = Path(temporary) / commit[:8]
        error = _git(repository, "worktree", "add", "--detach", str(tree), commit)[1]
        if error:
            raise UsageError(f"--checkout: {repository} cannot give commit {commit[:8]} ({error})")
        try:
            if diff and (error := _git(tree, "apply", "--whitespace=nowarn", "-", text=diff)[1]):
                raise UsageError(f"--checkout: the uncommitted changes do not apply to {commit[:8]} ({error})")
            yield tree
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _git(folder: Path, *arguments: str, text: str = "") -> tuple[str, str]:
    """Return the output of git, and the last line of its error if it fails."""
    command = ["git", "-C", str(folder), "-c", "safe.directory=*", *arguments]
    given = text.encode(errors="surrogateescape")  # as bytes: text would lose a diff's carriage returns
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    output, errors = (stream.decode(errors="backslashreplace") for stream in (done.stdout, done.stderr))
    return output, (errors.strip().splitlines() or ["git failed"])[-1] if done.returncode else ""


@contextmanager
def open_attempt(original: Record, reproductions: Path, *, checkout: bool) -> Iterator[Path]:
    """Open the next free folder under `reproductions`, or an interrupted attempt's, for this process only.

    checkout: whether the recorded code runs; such attempts are numbered separately.
    """
    parent = reproductions / original.folder.parent.name / original.folder.name
    for number in itertools.count(1):
        home = parent / f"{number}{'-checkout' if checkout else ''}"
        lease = Lease(home / REQUEST, lost=lambda reason: None)  # the run in it has another lease
        with suppress(LeaseHeldError):
            lease.take()
            try:
                request, path = format_request(original, home), home / REQUEST
                if not path.exists():
                    write(path, request)
                has_ended = (home / REPRODUCTION).exists()
                if has_ended or path.read_text(encoding="utf-8") != request or any(map(owner, runs_in(home))):
                    continue
                yield home
                return
            finally:
                lease.release()


def format_request(original: Record, home: Path) -> str:
    """Return the original's config as YAML with a new folder, the original's threads, and no W&B run."""
    cfg = OmegaConf.create(original.config)
    machine: Json = {
        "outputs": str(home.parent),
        "sweep": home.name,
        "logger": {"_target_": "asr_ablations.components.logger.csv.no_further_logger", "_partial_": True},
        "force": False,
        "plan": False,
        "threads": original.environment.hardware.threads,
    }
    if not original.environment.hardware.gpus and cfg.get("gpus") == "auto":
        machine["gpus"] = 0  # this machine may have GPUs although the original's had none
    for key in machine.keys() & cfg.keys():  # records of other code may lack some keys
        cfg[key] = machine[key]
    make_absolute(cfg)
    return OmegaConf.to_yaml(cfg)


def reproduce(
    original: Record, source: Path, reproductions: Path, *, checkout: bool
) -> tuple[ReproductionVerdict, Path, Path]:
    """Run the original's config again; return the verdict, the new run's folder, and the file with the verdict.

    source: the folder of the checkout whose code runs; with `checkout`, its repository's recorded commit runs.
    Raise UsageError if the run is refused, RunFailedError if it fails, KeyboardInterrupt if it is interrupted.
    """
    weights_hash(last_checkpoint(original.folder))  # refuses a damaged checkpoint before training again
    code = checked_out(source, original.environment.code) if checkout else nullcontext(source)
    with code as tree:
        if not checkout:
            check_trusted(original, source)
        with open_attempt(original, reproductions, checkout=checkout) as home:
            print(f"reproduces {original.folder}\n        in {home}", flush=True)
            run_frozen(tree, home / REQUEST)
            folder = runs_in(home)[0]
            record = read_run(folder)
            verdict = judge(compare_bits(original, record), find_causes(original, record), measure_noise(original))
            runs = {"original": str(original.folder), "reproduction": str(folder), "checkout": checkout}
            write_json(home / REPRODUCTION, {**runs, **verdict.as_json()})
            return verdict, folder, home / REPRODUCTION


def check_trusted(original: Record, source: Path) -> None:
    """Check a config that may be a stranger's. Raise UsageError for a wrong value, and for a config of other code."""
    path = original.folder / CONFIG
    defaults = compose(source / "conf", [], name="config", folder=None)
    if missing := [str(key) for key in defaults if key not in original.config]:
        raise UsageError(f"{path}: it lacks {', '.join(missing)}, so it belongs to other code; --checkout runs it")
    try:
        cfg = OmegaConf.create(original.config)
        fill(cfg)
        check(cfg)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


class RunFailedError(Exception):
    """A run that finished before did not finish this time."""


def make_absolute(cfg: DictConfig) -> None:
    """Make data.root and weights absolute, because the run starts in another folder. A null root is this folder."""
    if cfg.get("weights"):
        cfg.weights = str(Path(cfg.weights).absolute())
    data = cfg.get("data")
    if isinstance(data, DictConfig) and "root" in data:
        data.root = str(Path(data.root or ".").absolute())


def run_frozen(source: Path, config: Path) -> None:
    """Run a frozen config with the code of the checkout `source`.

    Raise KeyboardInterrupt for an interrupted run, UsageError for a refused one, RunFailedError for a failed one.
    """
    cfg = load_frozen(config)
    line = command(source / "src" / "train.py", config.absolute(), ranks(cfg))
    # not in the user's folder: if it is a src/, Python would import from it
    exit_code = wait_for(line, child_environment(source / "src"), source)
    if exit_code in STOPPED_EXIT_CODES or -exit_code in STOPPING:
        raise KeyboardInterrupt
    if exit_code == 2:
        raise UsageError("the run was refused (reason above); --checkout runs the recorded code")
    if exit_code:
        raise RunFailedError(f"the run did not finish this time: exit code {exit_code}")
