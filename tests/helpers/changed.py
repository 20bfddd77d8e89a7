"""Find the tests that a change may break: those of the packages it touches, and of all packages that import these."""

import ast
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.test_architecture import FILES, SOURCE, imports, package

REPOSITORY = SOURCE.parent
READ_BY = {
    "conf": {"config", "commands", "components", "experiment", "training", "sweep", "publish", "papers"},
    "sweeps": {"commands", "publish", "papers", "sweep"},
    "docs": {"commands", "publish", "papers"},
    "README.md": {"commands", "publish"},
    "CHANGELOG.md": {"publish"},
}


@cache
def reached(since: str) -> frozenset[str] | None:
    """Folders and files in tests/ that run for --changed=<since>, a commit; "": the upstream branch, or HEAD."""
    base = since or "@{upstream}"
    if _git("rev-parse", "-q", "--verify", f"{base}^{{commit}}").returncode:
        if since:
            raise pytest.UsageError(f"--changed={since}: expected a commit")
        base = "HEAD"
    listed = (_git("diff", "--name-only", base), _git("ls-files", "--others", "--exclude-standard"))
    folders = touched_folders(name for one in listed for name in one.stdout.splitlines())
    return None if folders is None else frozenset(folders)


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True)


def touched_folders(files: Iterable[str]) -> set[str] | None:
    """Folders and files in tests/ that a change of these files may break. None: all of them.

    A component's own tests are those of its group; the tests in tests/ itself read the whole repository and always run.
    """
    folders: set[str] = set()
    for name in files:
        parts = Path(name).parts
        if parts[0] == "src":
            room = package(".".join(Path(name).with_suffix("").parts[1:]).removesuffix(".__init__")) or "scripts"
            one_group = {f"components/{parts[3]}", "components/test_contracts.py"} if len(parts) > 4 else {room}
            folders |= _close(room) - {room} | (one_group if room == "components" else {room})
        elif parts[0] == "tests" and len(parts) > 2 and parts[1] != "helpers":
            folders.add("/".join(parts[1:]) if parts[-1].startswith("test_") else "/".join(parts[1:-1]))
        elif parts[0] in READ_BY:
            folders |= READ_BY[parts[0]]
        elif not (parts[0] == "tests" and parts[-1].startswith("test_")):
            return None
    return folders


@cache
def _close(room: str) -> set[str]:
    """A package, all that import it, and those whose tests start commands, which reach others by a name in a config."""
    closed, before = {room, "commands", "scripts"}, set[str]()
    while closed != before:
        before = {*closed}
        closed |= {above for above, below in _imports() if below in before}
    return closed


@cache
def _imports() -> set[tuple[str, str]]:
    """The pairs of a package and one that it imports."""
    files = ((module, ast.parse(path.read_text(encoding="utf-8"))) for module, path in FILES.items())
    pairs = {(package(module), package(name)) for module, tree in files for _, name in imports(tree, module)}
    return {(above, below) for above, below in pairs if above and below}


def is_touched(path: Path, folders: frozenset[str] | None) -> bool:
    """Whether a test file belongs to one of the folders, or lies in tests/ itself."""
    parts = path.relative_to(REPOSITORY / "tests").parts
    return folders is None or len(parts) == 1 or any("/".join(parts[:n]) in folders for n in range(1, len(parts) + 1))
