"""Start a run's ranks with torchrun, but hide its failure report, because the first failing rank prints the reason."""

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

SAID = "ASR_ABLATIONS_SAID"
"""Environment variable with the path of a file that the first failing rank creates before it prints the reason."""


def speaks() -> bool:
    """Return whether this process may print why it ends. If several ranks fail, only the first one may."""
    if (place := os.environ.get(SAID)) is None:
        return True
    try:
        Path(place).touch(exist_ok=False)
    except OSError:  # another rank has printed the reason, or torchrun has ended
        return False
    return True


def launch_ranks(words: list[str]) -> NoReturn:
    """Start all ranks, and exit with the exit code of the first rank that fails. words: torchrun's arguments."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[SAID] = str(Path(folder) / "said")
        try:
            run(parse_args(words))
        except SignalException as stop:
            sys.exit(128 + stop.sigval)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.exitcode < 0 and speaks():
                print(f"error: rank {rank} was killed by {failure.signal_name()}", file=sys.stderr)
            sys.exit(max(1, failure.exitcode))
    sys.exit()


if __name__ == "__main__":
    launch_ranks(sys.argv[1:])
