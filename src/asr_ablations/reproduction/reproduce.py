"""A finished run once more, and the verdict on it."""

from dataclasses import dataclass
from pathlib import Path

from asr_ablations.config.checks import check
from asr_ablations.config.compose import compose
from asr_ablations.reproduction.attempt import open_attempt
from asr_ablations.reproduction.causes import causes, changed_since
from asr_ablations.reproduction.checkout import code_folder
from asr_ablations.reproduction.evidence import compare_runs, refuse_damaged
from asr_ablations.reproduction.frozen_run import refuse_failure, run_frozen
from asr_ablations.reproduction.noise import noise
from asr_ablations.reproduction.original import Original
from asr_ablations.reproduction.verdict import Verdict, judge
from asr_ablations.runs.layout import CONFIG, REPRODUCTION, REQUEST
from asr_ablations.runs.records import read_run
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.files import write_json


@dataclass(frozen=True)
class Reproduction:
    """A finished reproduction. folder: the run's; result: the file that holds the verdict."""

    verdict: Verdict
    folder: Path
    result: Path


def reproduce(original: Original, source: Path, reproductions: Path, *, checkout: bool) -> Reproduction:
    """Run the original's config once more and compare the two runs. source: the folder of the checkout whose code runs;
    with `checkout`, the recorded code of its repository runs.

    Raises UsageError for what cannot be run, RunFailedError for a run that fails, KeyboardInterrupt for one that was
    interrupted.
    """
    refuse_damaged(original.record)
    changed_since(original)  # reads the config in its checkpoint
    with code_folder(original, source, checkout=checkout) as tree:
        if not checkout:
            check_trusted(original, source)
        attempt = open_attempt(original, reproductions, checkout=checkout)
        print(f"reproduces {original.folder}\n        in {attempt.home}", flush=True)
        exit_code = run_frozen(tree, attempt.home / REQUEST, original.threads)
    folder = attempt.run_folder
    refuse_failure(exit_code, folder)
    assert folder is not None
    record = read_run(folder)
    evidence = compare_runs(original.record, record)
    verdict = judge(evidence, causes(original, record), noise(original.record, original.sweep))
    runs = {"original": str(original.folder), "reproduction": str(folder), "checkout": checkout}
    write_json(attempt.home / REPRODUCTION, {**runs, **verdict.as_json()})
    return Reproduction(verdict, folder, attempt.home / REPRODUCTION)


def check_trusted(original: Original, source: Path) -> None:
    """Check a config from a folder, which anybody may have written, like one from the command line.

    Raises UsageError for a wrong value, and for a config without a key that the code of `source` needs.
    """
    path = original.folder / CONFIG
    defaults = compose(source / "conf", [], name="config", folder=None)
    if missing := [str(key) for key in defaults if key not in original.cfg]:
        raise UsageError(f"{path}: has no key {', '.join(missing)}, so it belongs to other code; --checkout runs that")
    try:
        check(original.cfg.copy())
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
