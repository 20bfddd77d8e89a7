"""A run again, and what became of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from asr_ablations.config.checks import check
from asr_ablations.config.compose import compose
from asr_ablations.reproduction.attempt import interrupted, open_attempt, start
from asr_ablations.reproduction.causes import causes
from asr_ablations.reproduction.checkout import checked_out
from asr_ablations.reproduction.evidence import compare_runs
from asr_ablations.reproduction.noise import noise
from asr_ablations.reproduction.original import Original
from asr_ablations.reproduction.verdict import Verdict, judge
from asr_ablations.runs.layout import CONFIG, REPRODUCTION, REQUEST
from asr_ablations.runs.records import read_run
from asr_ablations.runs.status import status_of
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write_json


class RunFailedError(Exception):
    """The run did not get to its end this time."""

    def __init__(self, reason: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(reason)


@dataclass(frozen=True)
class Reproduced:
    """The verdict and the reproduction's folder; result: the file that tells it."""

    verdict: Verdict
    folder: Path
    result: Path


def reproduce(original: Original, source: Path, reproductions: Path, *, checkout: bool) -> Reproduced:
    """Run the original's config once more, by the code of the checkout `source` or by the recorded code, and compare.

    Raises UsageError for what cannot be run, RunFailedError for a run that does not get to its end.
    """
    with code(original, source, checkout=checkout) as tree:
        if not checkout:
            check_trusted(original, source)
        attempt = open_attempt(original, reproductions, checkout=checkout)
        print(f"reproduces {original.folder}\n        in {attempt.home}", flush=True)
        exit_code = start(tree, attempt.home / REQUEST, original.threads)
    folder = attempt.run_folder
    refuse_failure(exit_code, folder)
    assert folder is not None
    record = read_run(folder)
    found = judge(
        compare_runs(original.record, record), causes(original, record), noise(original.record, original.sweep)
    )
    told = {"original": str(original.folder), "reproduction": str(folder), "checkout": checkout, **found.told()}
    write_json(attempt.home / REPRODUCTION, told)
    return Reproduced(found, folder, attempt.home / REPRODUCTION)


@contextmanager
def code(original: Original, source: Path, *, checkout: bool) -> Iterator[Path]:
    """The folder of the code to run: `source`, or a worktree of what is recorded."""
    if not checkout:
        yield source
        return
    recorded = original.record.environment.get("code", {})
    with checked_out(source, recorded) as tree:
        changes = ", with its uncommitted changes" if recorded.get("dirty_diff") else ""
        print(f"by the recorded code: commit {recorded['commit'][:8]}{changes}", flush=True)
        yield tree


def check_trusted(original: Original, source: Path) -> None:
    """A config from a folder is anybody's: check it as one from the command line. Raises UsageError, also for one that
    lacks what the code of `source` asks for.
    """
    path = original.folder / CONFIG
    known = compose(source / "conf", [], name="config", folder=None)
    if lacking := [str(key) for key in known if key not in original.cfg]:
        raise UsageError(f"{path}: has no key {', '.join(lacking)}, so it is of other code; --checkout runs that")
    try:
        check(original.cfg.copy())
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def refuse_failure(exit_code: int, folder: Path | None) -> None:
    """Raises KeyboardInterrupt, UsageError or RunFailedError for a run that did not end well."""
    if not exit_code:
        return
    if interrupted(exit_code):
        raise KeyboardInterrupt
    if exit_code == 2:
        raise UsageError("the run was refused (above); --checkout runs the recorded code")
    told = (folder and status_of(folder)) or {}
    raise RunFailedError(f"the run did not get to its end this time: {told.get('reason', f'exit code {exit_code}')}", 1)
