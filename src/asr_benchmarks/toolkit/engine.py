"""What an engine of benchmark=toolkit does; each is a file beside this one and a yaml in conf/benchmark/toolkit/."""

from typing import Protocol, TypedDict


class Epoch(TypedDict):
    """A trained epoch: its seconds, its frames, and the mean loss in nats per frame."""

    seconds: float
    frames: int
    loss: float


class CountedEpoch(Epoch):
    """A trained epoch with the number of its steps."""

    steps: int


class About(TypedDict):
    """version: package and version; memory: bytes of the GPU that were reserved at most, None on a CPU."""

    version: str
    memory: int | None


class Engine(Protocol):
    """Trains the network of Settings on the Frames of a folder. It is called with the folder, the Settings, and the
    config of the run as YAML; every engine has the same first weights. A class attribute `requires` names the packages
    that it needs beyond this project's.
    """

    def epoch(self) -> Epoch:
        """Train one epoch. Of several ranks, each counts its own frames."""

    def error_rate(self) -> float:
        """Frame error rate on the held-out frames, in %."""

    def about(self) -> About:
        """The engine's version and memory."""
