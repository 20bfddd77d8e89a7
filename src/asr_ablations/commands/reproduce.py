"""Repeat a finished run and report whether the result is the same, or train a variation of it.

python src/reproduce.py outputs/single/<run>                the same config again, with a verdict
python src/reproduce.py outputs/single/<run> --checkout     with the recorded code, in a git worktree
python src/reproduce.py theirs/single/<run> --checkout --trust    the same for a folder from another user or machine
python src/reproduce.py outputs/single/<run> seed=7         a new run in the same sweep, with only this key changed

The verdict is one of
  match                losses, metrics, hypotheses and weights are bit-equal, as expected on the same CPU
  drift within noise   not bit-equal, but only versions, hardware or threads differ, and the WER differs no more
                       than it does between seeds
  cannot tell          like drift, but the sweep has fewer than four seeds, so the variation between them is unknown
  differs              anything else; reported with the first step at which the losses differ, and all differences in
                       config, data, code, versions, hardware and threads
The verdict is printed and written to reproduction.json next to the new run, in outputs/reproductions/<sweep>/<run>/1,
2, …. An interrupted reproduction continues. The original is only read.

Exit code 0: match, drift within noise, or the new run is done; 1: differs, cannot tell, or the run failed; 2: a
mistake of the user.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asr_ablations.commands.console import as_folder, exit_code
from asr_ablations.tools.files import REPOSITORY

if TYPE_CHECKING:
    from asr_verdicts.record import Record


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code, as explained in the help text, or 130 after Ctrl-C."""
    options = parser().parse_intermixed_args(arguments)
    return exit_code(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    from asr_ablations.reproduction.reproduce import RunFailedError, announce, load_original, run_variation

    original = load_original(Path(options.run))
    if options.checkout:
        announce(original, REPOSITORY, trust=options.trust)
    try:
        if not options.overrides:
            return reproduce(original, options)
        run_variation(original, options.overrides, REPOSITORY, options.outputs, checkout=options.checkout)
        return 0
    except RunFailedError as error:
        print(error, file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("run", type=as_folder, metavar="RUN", help="folder of a finished run")
    arguments.add_argument(
        "overrides",
        nargs="*",
        default=[],  # without a default, argparse would report overrides as required
        metavar="KEY=VALUE",
        help="changed keys for a new run, such as rnn=gru",
    )
    arguments.add_argument(
        "--checkout",
        action="store_true",
        help="run the recorded code: its commit and uncommitted changes; only for folders that you trust",
    )
    arguments.add_argument(
        "--trust", action="store_true", help="with --checkout: trust a folder that another user or machine wrote"
    )
    arguments.add_argument(
        "--outputs", type=Path, help="output folder (default: outputs/reproductions; for a new run: outputs)"
    )
    return arguments


def reproduce(original: "Record", options: argparse.Namespace) -> int:
    from asr_ablations.report.wandb import log_afterwards
    from asr_ablations.reproduction.reproduce import reproduce
    from asr_ablations.reproduction.verdict import DRIFT, MATCH, print_verdict

    folder = (options.outputs or original.folder.parents[1] / "reproductions").absolute()
    verdict, new, result = reproduce(original, REPOSITORY, folder, checkout=options.checkout)
    print_verdict(verdict)
    print(f"reproduction  {new}\nverdict in    {result}")
    rates = {f"final/{name}/wer": rate for name, (_, rate) in verdict.evidence.rates.items()}
    results = {"reproduction/verdict": verdict.name, "reproduction/why": verdict.why, **rates}
    name = f"{original.folder.name}: reproduction"
    if command := log_afterwards(original.folder, "reproduction", name, results, {"folder": new.name}):
        print(f"W&B later     {command}")
    return int(verdict.name not in (MATCH, DRIFT))
