"""Load the run to reproduce, and its recorded code."""

import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asr_ablations.runs.layout import CONFIG, ENVIRONMENT, STATUS, is_run, runs_in
from asr_ablations.runs.reader import read_status
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import why_unfinished
from asr_verdicts.errors import UsageError
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
