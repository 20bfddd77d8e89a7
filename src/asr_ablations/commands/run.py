"""What the commands without Hydra share: one line and an exit code in place of a traceback for the user's mistakes."""

import sys
from collections.abc import Callable

from asr_ablations.runs.status import reason
from asr_ablations.tools.errors import UsageError, exit_code_of, of_the_system
from asr_ablations.tools.terminal import forgive_characters, harmless, ignore_output


def as_folder(word: str) -> str:
    """A folder as it is typed: alone, or behind run= as the commands with Hydra want it."""
    return word.removeprefix("run=")


def exit_code(work: Callable[[], int]) -> int:
    """The exit code of `work`: its own; 2 for a mistake of the user's, which is printed as one line; 130 for Ctrl-C; 1
    where the reader of the output has gone away, as in … | head.
    """
    forgive_characters()
    try:
        return work()
    except UsageError as error:
        print(harmless(f"error: {error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        return 130
    except BrokenPipeError:
        ignore_output()
        return 1
    except MemoryError as error:
        print(harmless(f"error: {reason(error)}"), file=sys.stderr)
        return 1
    except OSError as error:
        if (message := of_the_system(error)) is None:
            raise
        if error.filename is None:  # of the output itself
            ignore_output()
        print(harmless(f"error: {message}"), file=sys.stderr)
        return exit_code_of(error)
