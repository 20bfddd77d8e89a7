"""Until when a sweep adds runs. Contract: UntilFactory."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class UntilFactory(Protocol):
    """until: which runs a sweeper may add. The contract stands here, since it is built without torch."""

    def __call__(self) -> object | None:
        """None where the runs are those that the sweep names. Raises UsageError for values out of range."""
