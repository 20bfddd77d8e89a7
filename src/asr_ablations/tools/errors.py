"""The user's own mistakes: shown as one line, exit code 2, no traceback."""

import signal


class UsageError(ValueError):
    """A wrong value, a missing file: its message names the value and what was expected."""


def choices(name: str, value: object, allowed: object) -> UsageError:
    """The error for a value outside a list of choices."""
    listed = ", ".join(map(str, allowed)) if isinstance(allowed, (list, tuple, set)) else str(allowed)
    return UsageError(f"{name}={value}: expected {listed}")


class Stopped(BaseException):
    """Asked to stop (Ctrl-C, SIGTERM, preemption): the same request goes on from the last checkpoint. No
    KeyboardInterrupt: Lightning would turn it into exit(1).
    """

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        name = signal.Signals(signal_number).name
        super().__init__("interrupted" if signal_number == signal.SIGINT else f"interrupted: {name}")
