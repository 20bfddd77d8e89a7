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
from dataclasses import asdict
from functools import cache
from pathlib import Path

from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.files import Json
from tests.campaign.fault_places import PACKAGES, Fault, draw

CAUGHT, HANG, SURVIVED, LATE = "caught", "caught by time-out", "survived", "not caught in time"
UNPROVEN = "its test fails without the fault"
COLUMNS = ["room", "faults", CAUGHT, HANG, SURVIVED, LATE]
LIMIT, HANGING = 180, 120
"""Seconds of all tests of a fault, and of one test, after which it counts as hanging."""
NOT_COPIED = (".venv", "outputs", "multirun", "wandb", "__pycache__", "build", "*.egg-info", ".*_cache")
ROOMS_OF_TESTS = {"hydra_plugins": "sweep"}
"""Folders of tests that have another name than their room."""
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


class Copy:
    """A checkout's own copy, in which a fault is planted and the tests run."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.root, self._temporary = folder / "tree", folder / "t"
        self._process: subprocess.Popen[str] | None = None
        shutil.copytree(tree, self.root, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        (self.root / ".venv").symlink_to((tree / ".venv").resolve())

    def try_fault(self, fault: Fault) -> tuple[str, str]:
        """The outcome, and the test that failed, if one did."""
        path, ends = self.root / fault.path, time.monotonic() + LIMIT
        source = path.read_bytes()
        path.write_bytes(fault.planted(source))
        try:
            for files in steps(self.root, fault):
                for marks in ("not gpu and not slow", "not gpu and slow"):
                    outcome, test = self.test(["-x", "-m", marks, *files], ends - time.monotonic())
                    if outcome != SURVIVED or time.monotonic() > ends:
                        return outcome, test
            return SURVIVED, ""
        finally:
            path.write_bytes(source)

    def test(self, arguments: Sequence[str], seconds: float) -> tuple[str, str]:
        """How pytest ends, and the tests that failed. It has its own process ids where the system allows that: nothing
        outlives it, and a fault can stop no other process.
        """
        command = [*own_process_ids(), ".venv/bin/python", "-m", "pytest", "-n", "0", "-p", "no:cacheprovider"]
        command += [f"--basetemp={self._temporary}", "-o", f"faulthandler_timeout={HANGING}", *arguments]
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # relative: another tree's
        own |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "COLUMNS": "500"}
        process = self._process = subprocess.Popen(
            command, cwd=self.root, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=max(seconds, 1.0))
        except subprocess.TimeoutExpired:
            return LATE, ""
        finally:
            self.stop()
            process.communicate()
            shutil.rmtree(self._temporary, ignore_errors=True)
        if process.returncode in (0, 5):  # 5: no test has these marks
            return SURVIVED, ""
        failed = FAILED_TEST.findall(output)
        if "Timeout (" in output and not failed:
            return HANG, f"a test takes more than {HANGING} s"
        return CAUGHT, ", ".join(failed) or output.strip().rpartition("\n")[2][-200:]

    def stop(self) -> None:
        """End the tests that run, with the processes of their group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


@cache
def own_process_ids() -> tuple[str, ...]:
    """The command that gives a command process ids of its own, if there is one."""
    command = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with contextlib.suppress(OSError):
        if subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    return ()


def steps(root: Path, fault: Fault) -> Iterator[list[str]]:
    """The test files to run one after the other: the module's own and those that import it, then the rest of its
    room.
    """
    room = root / "tests" / ROOMS_OF_TESTS.get(fault.room, fault.room)
    parts = Path(fault.path).with_suffix("").parts[1:]
    near = room.joinpath(*parts[1 + (parts[0] == PACKAGES[0]) : -1])
    package, _, name = ".".join(parts).removesuffix(".__init__").rpartition(".")
    imports = re.compile(rf"\b{re.escape(f'{package}.{name}')}\b|from {re.escape(package)} import [^\n]*\b{name}\b")
    tests = sorted((root / "tests").rglob("test_*.py"))
    first = [*sorted(near.glob(f"test_{parts[-1]}*.py")), *(path for path in tests if imports.search(path.read_text()))]
    rest = [path for folder in (near, room) for path in sorted(folder.rglob("test_*.py")) if path not in first]
    for paths in (first, rest):
        if files := [path.relative_to(root).as_posix() for path in dict.fromkeys(paths)]:
            yield files


def measure(tree: Path, faults: Iterable[Fault], record: Path, processes: int) -> None:
    """Try the faults, so many at a time, and append a JSON line for each to the record as it ends. Then run every test
    that caught a fault without it: if it fails all the same, it has caught nothing, and the record says so.
    """
    lock, left, stopped = threading.Lock(), iter(faults), threading.Event()

    def work(copy: Copy) -> None:
        while not stopped.is_set():
            with lock:
                fault = next(left, None)
            if fault is None:
                return
            began = time.monotonic()
            outcome, test = copy.try_fault(fault)
            line = {**asdict(fault), "outcome": outcome, "test": test, "seconds": round(time.monotonic() - began)}
            with lock, record.open("a", encoding="utf-8") as file:
                if not stopped.is_set():
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")

    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        Path(folder).chmod(0o755)  # a test reads the source as another user, too
        copies = [Copy(tree, Path(folder) / str(number)) for number in range(processes)]
        threads = [threading.Thread(target=work, args=(copy,), daemon=True) for copy in copies]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            lines = read_record(record)
            caught = {line["test"] for line in lines if line["test"].startswith("tests/")}
            fails = copies[0].test(sorted(caught), 3600.0)[1].split(", ") if caught else []
        finally:
            stopped.set()
            for copy in copies:
                copy.stop()
    for line in lines:
        if line["outcome"] == CAUGHT and line["test"] in fails:
            line["outcome"] = UNPROVEN
    record.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def read_record(record: Path) -> list[Json]:
    """The faults that have been tried; none where there is no record."""
    return [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()] if record.exists() else []


def table(lines: Sequence[Json]) -> list[list[str]]:
    """Room, faults, caught (by time-out among them), survived all of the tests, not caught in time."""
    rows = []
    for room in [*sorted({line["room"] for line in lines}), "all"]:
        outcomes = Counter(line["outcome"] for line in lines if room in (line["room"], "all"))
        caught = outcomes[CAUGHT] + outcomes[HANG]
        rows.append([room, *map(str, (outcomes.total(), caught, outcomes[HANG], outcomes[SURVIVED], outcomes[LATE]))])
    return rows


def survivors(lines: Sequence[Json]) -> list[str]:
    row = "{path}:{line}: {kind}: {before} -> {after} ({outcome})"
    return [row.format(**line) for line in lines if line["outcome"] not in (CAUGHT, HANG)]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--record", type=Path, required=True, metavar="FILE", help="its faults are not tried again")
    arguments.add_argument("--tree", type=Path, default=REPOSITORY, metavar="FOLDER", help="the checkout to measure")
    arguments.add_argument("--faults", type=int, default=100)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--processes", type=int, default=1, help="faults at a time")
    options = arguments.parse_args()
    tried = {(line["path"], line["start"], line["after"]) for line in read_record(options.record)}
    drawn = draw(options.tree.resolve(), options.faults, options.seed)
    left = [fault for fault in drawn if (fault.path, fault.start, fault.after) not in tried]
    measure(options.tree.resolve(), left, options.record, options.processes)
    lines = read_record(options.record)
    for row in [COLUMNS, *table(lines)]:
        print(f"{row[0]:20}" + "".join(f"{cell:>20}" for cell in row[1:]))
    print(*survivors(lines), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
