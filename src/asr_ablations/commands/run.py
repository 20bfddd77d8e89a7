"""What the commands without Hydra share: one line and an exit code in place of a traceback for the user's mistakes."""

import os
import sys
from collections.abc import Callable

from asr_ablations.tools.errors import UsageError


def exit_code(work: Callable[[], int]) -> int:
    """The exit code of `work`: its own; 2 for a mistake of the user's, which is printed as one line; 130 for Ctrl-C; 1
    where the reader of the output has gone away, as in … | head.
    """
    try:
        return work()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
