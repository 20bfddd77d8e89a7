"""Run a finished run again and say whether its result came back; or vary it in one key.

python src/reproduce.py outputs/single/<run>                the same config once more, with a verdict
python src/reproduce.py outputs/single/<run> --checkout     by the code that the run recorded, in a git worktree
python src/reproduce.py outputs/single/<run> seed=7         a new run of the same sweep that differs in that key alone

The verdict is one of
  match                bit-equal losses, metrics, hypotheses and weights: to be expected on the same machine's CPU
  drift within noise   not bit-equal, but only versions, hardware or threads differ, and the WER by no more than
                       between seeds
  differs              else; with the first step at which the losses part, and every difference of config, data,
                       code, versions, hardware and threads
It is printed, and stands in reproduction.json beside the run, in outputs/reproductions/<sweep>/<run>/1, 2, …; an
interrupted reproduction goes on, and the original is only read.

Exit code 0: match, drift within noise, or the new run is done; 1: differs, or the run failed; 2: a mistake.
"""

import argparse
import os
import sys
from pathlib import Path

from asr_ablations.tools.paths import REPOSITORY


def main(arguments: list[str] | None = None) -> int:
    """Exit code as the help tells; 130 for Ctrl-C."""
    asked = parser().parse_intermixed_args(arguments)
    from asr_ablations.reproduction.reproduce import RunFailedError
    from asr_ablations.tools.errors import UsageError

    try:
        return vary(asked) if asked.overrides else reproduce(asked)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RunFailedError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    except BrokenPipeError:  # … | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("run", type=Path, metavar="RUN", help="the folder of a finished run")
    made.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="what a new run has otherwise, as for src/train.py; rnn=gru"
    )
    made.add_argument(
        "--checkout",
        action="store_true",
        help="run the commit that the record names, with the uncommitted changes it holds; only for records you trust",
    )
    made.add_argument("--outputs", type=Path, help="in place of outputs/reproductions, or for a new run, of outputs")
    return made


def reproduce(asked: argparse.Namespace) -> int:
    from asr_ablations.reproduction.original import load_original
    from asr_ablations.reproduction.reproduce import reproduce
    from asr_ablations.reproduction.terminal import print_verdict
    from asr_ablations.reproduction.verdict import DIFFERS

    original = load_original(asked.run)
    folder = (asked.outputs or original.sweep.parent / "reproductions").absolute()
    done = reproduce(original, REPOSITORY, folder, checkout=asked.checkout)
    print_verdict(done.verdict)
    print(f"reproduction  {done.folder}\nverdict in    {done.result}")
    return int(done.verdict.name == DIFFERS)


def vary(asked: argparse.Namespace) -> int:
    from asr_ablations.reproduction.original import load_original
    from asr_ablations.reproduction.variation import run_variation

    run_variation(load_original(asked.run), asked.overrides, REPOSITORY, asked.outputs, checkout=asked.checkout)
    return 0
