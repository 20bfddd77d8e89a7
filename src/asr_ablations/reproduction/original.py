"""Load the run to reproduce, and its recorded code."""

import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.runs.layout import CONFIG, ENVIRONMENT, STATUS, is_run, runs_in
from asr_ablations.runs.reader import read_status
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_ablations.tools.checks import is_whole
from asr_verdicts.errors import UsageError
from asr_verdicts.record import Code, Record


@dataclass(frozen=True)
class Original:
    """A finished run. cfg: its config.yaml. record: the contents of its folder."""

    folder: Path
    cfg: DictConfig
    record: Record

    @property
    def sweep(self) -> Path:
        """The folder of its sweep: its parent and not the config's, because folders are moved."""
        return self.folder.parent

    @property
    def threads(self) -> int | None:
        """The recorded number of CPU threads, or None."""
        threads = self.record.environment.hardware.threads
        return threads if is_whole(threads, 1) else None


def load_original(folder: Path) -> Original:
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
        raise UsageError(
            f"{folder}: not finished ({reason}), so there is nothing to reproduce; "
            "continue it with the command that started it"
        )
    try:
        record = read_run(folder)
        return Original(folder, OmegaConf.create(record.config), record)
    except OmegaConfBaseException as error:
        raise UsageError(f"{folder / CONFIG}: cannot be read: {' '.join(str(error).split())}") from error


MOST_NAMES = 20  # changed files to name


def announce(original: Original, repository: Path, *, trust: bool) -> None:
    """Print which code `--checkout` will run. Raise UsageError for an untrusted folder of another user or machine."""
    commit, diff = _read_code(original.record.environment.code)
    # git quotes the names; nothing is applied
    listed = _git(repository, "apply", "--numstat", "-", text=diff).stdout if diff else ""
    files = [line.split("\t", 2)[-1] for line in listed.split("\n") if line]
    named = ", ".join(files[:MOST_NAMES]) + (f" and {len(files) - MOST_NAMES} more" if files[MOST_NAMES:] else "")
    print(f"--checkout runs commit {commit}" + (f", with uncommitted changes of {named}" if diff else ""), flush=True)
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
def code_folder(original: Original, source: Path, *, checkout: bool) -> Iterator[Path]:
    """Yield the folder of the code to run: `source`, or with `checkout` a worktree of the recorded code."""
    if not checkout:
        yield source
        return
    code = original.record.environment.code
    with checked_out(source, code) as tree:
        changes = ", with its uncommitted changes" if code.dirty_diff else ""
        print(f"runs the recorded code: commit {str(code.commit)[:8]}{changes}", flush=True)
        yield tree


@contextmanager
def checked_out(repository: Path, code: Code) -> Iterator[Path]:
    """Yield a folder with the recorded commit and its uncommitted changes; it is removed afterwards.

    Raise UsageError outside git, for an unknown commit, and for changes that do not apply.
    """
    commit, diff = _read_code(code)
    if _git(repository, "rev-parse", "--git-dir").returncode:
        raise UsageError(f"--checkout: {repository} is not a git checkout, so it cannot give commit {commit[:8]}")
    if _git(repository, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
        raise UsageError(f"--checkout: commit {commit[:8]} is not in {repository}; git fetch may bring it")
    with tempfile.TemporaryDirectory(prefix="reproduce-") as temporary:
        tree = Path(temporary) / commit[:8]
        _git(repository, "worktree", "add", "--detach", str(tree), commit, failure="git worktree")
        try:
            if diff:
                failure = f"the recorded uncommitted changes do not apply to {commit[:8]}"
                _git(tree, "apply", "--whitespace=nowarn", "-", text=diff, failure=failure)
            yield tree
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _git(
    folder: Path, *arguments: str, text: str | None = None, failure: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git. failure: text of the UsageError if git fails; if None, the caller checks the exit code."""
    command = ["git", "-C", str(folder), "-c", "safe.directory=*", *arguments]
    given = (text or "").encode(errors="surrogateescape")  # as bytes: text would lose a diff's carriage returns
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    except OSError as error:
        raise UsageError(f"--checkout: git cannot be run ({error.strerror})") from error
    output, errors = (stream.decode(errors="backslashreplace") for stream in (done.stdout, done.stderr))
    if failure is not None and done.returncode:
        reason = next(iter(reversed(errors.strip().splitlines())), f"exit code {done.returncode}")
        raise UsageError(f"--checkout: {failure} ({reason})")
    return subprocess.CompletedProcess(command, done.returncode, output, errors)
