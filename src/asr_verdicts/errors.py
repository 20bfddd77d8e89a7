"""The error for a user's mistake, which states the wrong value and the expected values."""


class UsageError(ValueError):
    """A user's mistake, such as a wrong value or a missing file. The message states what was expected."""


def choices(name: str, value: object, allowed: object) -> UsageError:
    """Return the error for a value that is not among the allowed choices. name: the option or config key."""
    listed = ", ".join(map(str, allowed)) if isinstance(allowed, (list, tuple, set)) else str(allowed)
    return UsageError(f"{name}={value}: expected {listed}")
