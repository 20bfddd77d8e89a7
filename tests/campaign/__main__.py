"""Run what is too long for the suite, and write a dated report.

make campaign                                       every part, an hour
make campaign PARTS=kills,coverage HOURS=2          some of them; each gets a share of the time
make campaign RESUME=outputs/campaigns/<date>       the parts that had not ended when it was interrupted
make campaign ARGS=--list                           what parts there are
make campaign PARTS=same ARGS="--runs outputs/seeds"    one about runs of yours
"""

import argparse
import math
import signal
import sys
from datetime import datetime
from pathlib import Path

from asr_ablations.commands.console import exit_code
from asr_ablations.tools.files import REPOSITORY
from asr_verdicts.errors import UsageError
from tests.campaign.campaign import run_campaign
from tests.campaign.part import choose, find_parts


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 if all passed, 1 if something failed, 2 for a mistake of the user's, 130 for Ctrl-C."""
    options = parser().parse_args(arguments)
    return exit_code(lambda: _run(options))


def parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(
        "make campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--parts", default="", metavar="NAME,NAME", help="by default all")
    arguments.add_argument("--hours", default="1", help="for all of them together; a part ends its last case")
    arguments.add_argument("--seed", type=int, default=0, help="of everything drawn at random, as moments of kills")
    arguments.add_argument("--list", action="store_true", help="name the parts, run nothing")
    arguments.add_argument("--outputs", type=Path, default=REPOSITORY / "outputs" / "campaigns", metavar="FOLDER")
    arguments.add_argument("--resume", type=Path, metavar="FOLDER", help="of a campaign that was interrupted")
    arguments.add_argument("--runs", type=Path, metavar="FOLDER", help="one arm over many seeds, for the part same")
    return arguments


def _run(options: argparse.Namespace) -> int:
    parts = find_parts()
    if options.list:
        for part in parts.values():
            print(f"{part.NAME:12}{part.DESCRIPTION}")
        return 0
    chosen, hours = choose(parts, options.parts), _hours(options.hours)
    for option, folder in (("RESUME=", options.resume), ("--runs ", options.runs)):
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{option}{folder}: there is no such folder")
    folder = options.resume or options.outputs / datetime.now().strftime("%Y-%m-%dT%H-%M-%S")
    return run_campaign(chosen, folder, hours, options.seed, options.runs)


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not 0 < hours < math.inf:
        raise UsageError(f"HOURS={text}: expected a number above 0")
    return hours


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as of `timeout`: what there is is reported
    sys.exit(main())
