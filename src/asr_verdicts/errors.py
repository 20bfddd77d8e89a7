"""Errors for the user's own mistakes: one line that names the value and what was expected."""


class UsageError(ValueError):
    """A wrong value, a missing file: its message names the value and what was expected."""


def choices(name: str, value: object, allowed: object) -> UsageError:
    """The error for a value outside a list of choices."""
    listed = ", ".join(map(str, allowed)) if isinstance(allowed, (list, tuple, set)) else str(allowed)
    return UsageError(f"{name}={value}: expected {listed}")
