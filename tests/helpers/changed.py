"""Find the tests that a change may break: those of the packages it touches, and of all packages that import these."""

import ast
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.test_architecture import FILES, SOURCE, imports, package

REPOSITORY = SOURCE.parent
ABOVE_ALL = ("commands", "scripts")
"""Packages whose tests start commands, which may reach every other package by a name in a config."""
READ_BY = {
    "conf": {"config", "commands", "components", "experiment", "training", "sweep", "publish", "papers"},
    "sweeps": {"commands", "publish", "papers", "sweep"},
    "docs": {"commands", "publish", "papers"},
    "README.md": {"commands", "publish"},
    "CHANGELOG.md": {"publish"},
}
"""Folders of tests that read files outside src/."""


def changed_files(since: str | None) -> set[str]:
    """Files that differ from commit `since`, and untracked ones. None: the upstream branch, or HEAD without one.

    Raises ValueError for an unknown commit.
    """
    is_known = not _git("rev-parse", "-q", "--verify", f"{since or '@{upstream}'}^{{commit}}").returncode
    if since and not is_known:
        raise ValueError(f"--changed={since}: expected a commit")
    base = since or ("@{upstream}" if is_known else "HEAD")
    tracked, untracked = _git("diff", "--name-only", base), _git("ls-files", "--others", "--exclude-standard")
    return {*tracked.stdout.splitlines(), *untracked.stdout.splitlines()}


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True)


@cache
def importers() -> dict[str, set[str]]:
    """For each package, the packages that import it."""
    found: dict[str, set[str]] = {}
    for module, path in FILES.items():
        for _, imported in imports(ast.parse(path.read_text(encoding="utf-8")), module):
            if (below := package(imported)) and (above := package(module)) and below != above:
                found.setdefault(below, set()).add(above)
    return found


@cache
def reached(since: str | None) -> frozenset[str] | None:
    """Folders and files in tests/ that run for --changed. Raises pytest.UsageError for an unknown commit."""
    try:
        folders = touched_folders(changed_files(since))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    return None if folders is None else frozenset(folders)


def touched_folders(files: Iterable[str]) -> set[str] | None:
    """Folders and files in tests/ that a change of these files may break. None: all of them.

    A component's own tests are those of its group; the tests in tests/ itself read the whole repository and always run.
    """
    folders: set[str] = set()
    for name in files:
        parts = Path(name).parts
        if parts[0] == "src":
            module = ".".join(Path(name).relative_to("src").with_suffix("").parts).removesuffix(".__init__")
            room = package(module) or "scripts"
            folders |= _close({room}) - {room}
            if room == "components" and len(parts) > 4:
                folders |= {f"components/{parts[3]}", "components/test_contracts.py"}
            else:
                folders.add(room)
        elif parts[0] == "tests" and len(parts) > 2 and parts[1] != "helpers":
            folders.add("/".join(parts[1:]) if parts[-1].startswith("test_") else "/".join(parts[1:-1]))
        elif parts[0] in READ_BY:
            folders |= READ_BY[parts[0]]
        elif not (parts[0] == "tests" and parts[-1].startswith("test_")):
            return None
    return folders


def _close(rooms: set[str]) -> set[str]:
    """The packages, all that import them, and those that start commands."""
    closed = {*rooms, *ABOVE_ALL}
    while more := set().union(*(importers().get(room, set()) for room in closed)) - closed:
        closed |= more
    return closed


def is_touched(path: Path, folders: frozenset[str] | None) -> bool:
    """Whether a test file belongs to one of the folders, or lies in tests/ itself."""
    parts = path.relative_to(REPOSITORY / "tests").parts
    return folders is None or len(parts) == 1 or any("/".join(parts[:n]) in folders for n in range(1, len(parts) + 1))
