"""Which planted faults the tests catch.

PYTHONPATH=src python -m tests.campaign.planted_faults --record faults.jsonl --tree <checkout> --processes 2
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.files import Json
from tests.campaign.fault_places import PACKAGES, Fault, draw

CAUGHT, HANG, SURVIVED, LATE = "caught", "caught by time-out", "survived", "not caught in time"
UNPROVEN = "its test fails without the fault"
COLUMNS = ["room", "faults", CAUGHT, HANG, SURVIVED, LATE]
LIMIT = 180
"""Seconds of all tests of a fault: what is left of them by then is not run."""
HANGING = 120
"""Seconds of one test, after which it counts as hanging."""
NOT_COPIED = (".venv", "outputs", "multirun", "wandb", "__pycache__", "build", "*.egg-info", ".*_cache")
ROOMS_OF_TESTS = {"hydra_plugins": "sweep"}
"""Folders of tests that have another name than their room."""
FAST, SLOW = "not gpu and not slow", "not gpu and slow"
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Ending:
    """The outcome of the tests, and the test that failed, if one did."""

    outcome: str
    test: str = ""


class Copy:
    """A checkout's own copy, in which a fault is planted and the tests run."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.root, self._temporary = folder / "tree", folder / "t"
        self._process: subprocess.Popen[str] | None = None
        shutil.copytree(tree, self.root, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        (self.root / ".venv").symlink_to((tree / ".venv").resolve())

    def try_fault(self, fault: Fault) -> Ending:
        path = self.root / fault.path
        source = path.read_bytes()
        path.write_bytes(fault.planted(source))
        try:
            return self._run_tests(steps(self.root, fault))
        finally:
            path.write_bytes(source)

    def _run_tests(self, steps: Iterable[tuple[Sequence[str], str]]) -> Ending:
        ends = time.monotonic() + LIMIT
        for files, marks in steps:
            ending = self.test(["-m", marks, *files], ends - time.monotonic())
            if ending.outcome != SURVIVED or time.monotonic() > ends:
                return ending
        return Ending(SURVIVED)

    def test(self, arguments: Sequence[str], seconds: float, options: Sequence[str] = ("-x",)) -> Ending:
        """How pytest ends. It has its own process ids where the system allows that: nothing outlives it, and a fault
        can stop no other process.
        """
        command = [*own_process_ids(), ".venv/bin/python", "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
        command += [*options, f"--basetemp={self._temporary}", "-o", f"faulthandler_timeout={HANGING}", *arguments]
        variables = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "COLUMNS": "500"}
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # relative: another tree's
        process = self._process = subprocess.Popen(
            command, cwd=self.root, env={**own, **variables}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=max(seconds, 1.0))
        except subprocess.TimeoutExpired:
            return Ending(LATE)
        finally:
            self.stop()
            process.communicate()
            shutil.rmtree(self._temporary, ignore_errors=True)
        if process.returncode in (0, 5):  # 5: no test has these marks
            return Ending(SURVIVED)
        failed = FAILED_TEST.findall(output)
        if "Timeout (" in output and not failed:
            return Ending(HANG, f"a test takes more than {HANGING} s")
        return Ending(CAUGHT, ", ".join(failed) or output.strip().rpartition("\n")[2][-200:])

    def stop(self) -> None:
        """End the tests that run, with the processes of their group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


@cache
def own_process_ids() -> tuple[str, ...]:
    """The command that gives a command process ids of its own, if there is one."""
    command = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    except OSError:
        return ()
    return command if allowed else ()


def steps(root: Path, fault: Fault) -> Iterator[tuple[list[str], str]]:
    """The test files to run one after the other: the module's own and those that import it, and then the rest of its
    room; of each the fast tests first.
    """
    tests = root / "tests"
    room = tests / ROOMS_OF_TESTS.get(fault.room, fault.room)
    parts = Path(fault.path).with_suffix("").parts[1:]
    near = room.joinpath(*parts[1 + (parts[0] == PACKAGES[0]) : -1])
    own = sorted(near.glob(f"test_{parts[-1]}*.py"))
    module = ".".join(parts).removesuffix(".__init__")
    package, _, name = module.rpartition(".")
    imports = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(package)} import [^\n]*\b{name}\b")
    importers = [path for path in sorted(tests.rglob("test_*.py")) if imports.search(path.read_text(encoding="utf-8"))]
    rest = [path for folder in (near, room) for path in sorted(folder.rglob("test_*.py"))]
    groups: list[list[str]] = []
    seen: set[Path] = set()
    for paths in ([*own, *importers], rest):
        files = [path for path in dict.fromkeys(paths) if path not in seen]
        seen.update(files)
        if files:
            groups.append([path.relative_to(root).as_posix() for path in files])
    for group in groups:
        yield from ((group, marks) for marks in (FAST, SLOW))


def measure(tree: Path, faults: Iterable[Fault], record: Path, processes: int) -> None:
    """Try the faults, so many at a time, and append a JSON line for each to the record as it ends."""
    lock, left, stopped = threading.Lock(), iter(faults), threading.Event()

    def work(copy: Copy) -> None:
        while True:
            with lock:
                fault = next(left, None)
            if fault is None:
                return
            started = time.monotonic()
            ending = copy.try_fault(fault)
            if stopped.is_set():
                return
            line = {"name": fault.name, **asdict(fault), **asdict(ending), "seconds": round(time.monotonic() - started)}
            with lock, record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    with _open_to_all() as folder:
        copies = [Copy(tree, folder / str(number)) for number in range(processes)]
        threads = [threading.Thread(target=work, args=(copy,), daemon=True) for copy in copies]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            stopped.set()
            for copy in copies:
                copy.stop()


@contextlib.contextmanager
def _open_to_all() -> Iterator[Path]:
    """A temporary folder in which a test can read the source as another user, too."""
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def prove(tree: Path, record: Path) -> None:
    """Run every test that caught a fault without it. If it fails all the same, it has caught nothing, and the record
    says so.
    """
    lines = read_record(record)
    tests = sorted({line["test"] for line in lines if line["outcome"] == CAUGHT and line["test"].startswith("tests/")})
    if not tests:
        return
    with _open_to_all() as folder:
        ending = Copy(tree, folder).test(tests, 3600.0, options=())
    fails = ending.test.split(", ")
    for line in lines:
        if line["outcome"] == CAUGHT and line["test"] in fails:
            line["outcome"] = UNPROVEN
    record.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def read_record(record: Path) -> list[Json]:
    """The faults that have been tried; none where there is no record."""
    if not record.exists():
        return []
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]


def untried(faults: Sequence[Fault], record: Path) -> list[Fault]:
    tried = {line["name"] for line in read_record(record)}
    return [fault for fault in faults if fault.name not in tried]


def table(lines: Sequence[Json]) -> list[list[str]]:
    """Room, faults, caught (by time-out among them), survived all of the tests, not caught in time."""
    rows = []
    for room in [*sorted({line["room"] for line in lines}), "all"]:
        outcomes = Counter(line["outcome"] for line in lines if room in (line["room"], "all"))
        caught = outcomes[CAUGHT] + outcomes[HANG]
        rows.append([room, *map(str, (outcomes.total(), caught, outcomes[HANG], outcomes[SURVIVED], outcomes[LATE]))])
    return rows


def described(line: Json) -> str:
    return f"{line['path']}:{line['line']}: {line['kind']}: {line['before']} -> {line['after']} ({line['outcome']})"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--record", type=Path, required=True, metavar="FILE", help="what is in it is not tried again"
    )
    arguments.add_argument("--tree", type=Path, default=REPOSITORY, metavar="FOLDER", help="the checkout to measure")
    arguments.add_argument("--faults", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--processes", type=int, default=1, help="faults at a time")
    options = arguments.parse_args()
    tree = options.tree.resolve()
    faults = draw(tree, options.faults, options.seed)
    measure(tree, untried(faults, options.record), options.record, options.processes)
    prove(tree, options.record)
    lines = read_record(options.record)
    for row in [COLUMNS, *table(lines)]:
        print(f"{row[0]:20}" + "".join(f"{cell:>20}" for cell in row[1:]))
    print(*(described(line) for line in lines if line["outcome"] not in (CAUGHT, HANG)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
