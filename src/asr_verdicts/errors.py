"""Errors for a user's mistakes, each in one line with the value and what was expected."""


class UsageError(ValueError):
    """A user's mistake, such as a wrong value or a missing file. The message names the value and what was expected."""


def choices(name: str, value: object, allowed: object) -> UsageError:
    """Return the error for a value that is not among the allowed choices."""
    listed = ", ".join(map(str, allowed)) if isinstance(allowed, (list, tuple, set)) else str(allowed)
    return UsageError(f"{name}={value}: expected {listed}")
