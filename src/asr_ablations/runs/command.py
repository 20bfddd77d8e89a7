"""The frame of every command: what precedes its work, and one line in place of a traceback."""

import signal
import sys

from asr_ablations.runs.status import ending
from asr_ablations.runs.torchrun import speaks
from asr_ablations.tools.errors import Stopped
from asr_ablations.tools.machine import name_the_user
from asr_ablations.tools.signals import end_at_once_on_another, ignored_at_the_end
from asr_ablations.tools.streams import open_streams
from asr_verdicts.terminal import forgive_characters, harmless


def prepare_command() -> None:
    ignored_at_the_end()
    open_streams()
    forgive_characters()
    name_the_user()


def report_end(error: BaseException, *, continues: bool = True) -> int:
    """Print why a command ends in one line, once for all ranks of a run, and return its exit code: 2 for a mistake of
    the user's, 1 for an error of the machine's, 128 and the number of a signal. Any other error is ours, and is raised.

    continues: the same command continues where it was interrupted.
    """
    if isinstance(error, (KeyboardInterrupt, Stopped)):
        code = 128 + getattr(error, "signal_number", signal.SIGINT)
        end_at_once_on_another(code)
        line = f"{str(error) or 'interrupted'}{'; the same command continues' if continues else ''}"
    elif isinstance(error, Exception) and (end := ending(error)) is not None:
        line, code = f"error: {end[0]}" if end[0] else "", end[1]
    else:
        raise error
    if line and speaks():
        print(harmless(line), file=sys.stderr)
    return code
