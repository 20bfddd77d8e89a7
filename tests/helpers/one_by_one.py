"""For a Worker: importing a framework takes longer than most of what the tests ask of it."""

from collections.abc import Callable
from typing import Any


class OneByOne:
    """One object after another, in one process."""

    def __init__(self) -> None:
        self.current: Any = None

    def begin(self, make: Callable[[], object]) -> None:
        self.current = make()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)
