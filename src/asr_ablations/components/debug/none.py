"""No debugging."""

from pathlib import Path

from asr_ablations.training.contracts import Debugging


class NoDebugging(Debugging):
    """Trains as the config says."""

    def __init__(self, folder: Path | None) -> None:
        self.batches = None
