"""What an arm would cost on this machine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """An estimate for one arm: steps of the optimizer, hours of speech that it trains on, seconds for training and
    evaluation, GPUs, bytes of memory (of the GPU where there is one) and bytes of disk for its checkpoints.
    """

    steps: int
    speech: float
    seconds: float
    gpus: int
    memory: int
    disk: int

    @property
    def gpu_hours(self) -> float:
        return self.gpus * self.seconds / 3600
