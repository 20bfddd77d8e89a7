"""The code that a run's record names, in a git worktree of its own."""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from asr_ablations.reproduction.original import Original
from asr_ablations.tools.errors import UsageError


@contextmanager
def code_folder(original: Original, source: Path, *, checkout: bool) -> Iterator[Path]:
    """The folder of the code to run: `source`, or with `checkout` a worktree of the recorded code.

    Raises UsageError for recorded code that cannot be checked out.
    """
    if not checkout:
        yield source
        return
    code = original.record.environment.get("code", {})
    with checked_out(source, code) as tree:
        changes = ", with its uncommitted changes" if code.get("dirty_diff") else ""
        print(f"by the recorded code: commit {code['commit'][:8]}{changes}", flush=True)
        yield tree


@contextmanager
def checked_out(repository: Path, code: Mapping[str, object]) -> Iterator[Path]:
    """The recorded commit with the recorded uncommitted changes, in a folder that is removed afterwards.

    Raises UsageError outside git, for an unknown commit, and for changes that do not apply.
    """
    commit, diff = str(code.get("commit", "")), str(code.get("dirty_diff") or "")
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise UsageError("--checkout: the run's environment.json names no commit: it did not run from a git checkout")
    if _git(repository, "rev-parse", "--git-dir").returncode:
        raise UsageError(f"--checkout: {repository} is no git checkout, so commit {commit[:8]} cannot be taken from it")
    if _git(repository, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
        raise UsageError(f"--checkout: commit {commit[:8]} is not in {repository}; git fetch may bring it")
    with tempfile.TemporaryDirectory(prefix="reproduce-") as temporary:
        tree = Path(temporary) / commit[:8]
        added = _git(repository, "worktree", "add", "--detach", str(tree), commit)
        if added.returncode:
            raise UsageError(f"--checkout: git worktree: {_last_line(added)}")
        try:
            _apply(tree, diff, commit)
            yield tree
        finally:
            _git(repository, "worktree", "remove", "--force", str(tree))


def _apply(tree: Path, diff: str, commit: str) -> None:
    """Apply the uncommitted changes to the worktree. Raises UsageError where they do not fit the commit."""
    if not diff:
        return
    applied = _git(tree, "apply", "--whitespace=nowarn", "-", text=diff)
    if applied.returncode:
        raise UsageError(
            f"--checkout: the recorded uncommitted changes do not apply to {commit[:8]} ({_last_line(applied)})"
        )


def _git(folder: Path, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"--checkout: git cannot be run ({error.strerror})") from error


def _last_line(process: subprocess.CompletedProcess[str]) -> str:
    """The last line of the standard error, or the exit code."""
    return next(iter(reversed(process.stderr.strip().splitlines())), f"exit code {process.returncode}")
