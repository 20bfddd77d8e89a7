"""The signals by which somebody asks a process to stop."""

import signal

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C; a scheduler, or kill; a terminal that was closed, or a connection that was lost."""
STOPPED_EXIT_CODES = frozenset(128 + number for number in STOPPING)
"""Of a process that stopped on such a signal, as shells count."""


def stopping_signals() -> list[signal.Signals]:
    """Those to listen to here: under nohup the end of the terminal is to be ignored."""
    return [number for number in STOPPING if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]
