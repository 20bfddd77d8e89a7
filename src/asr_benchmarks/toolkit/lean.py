"""The project's loop with nothing in it that training does not need, and its sums in as many bits as asked."""

from typing import Any

from asr_benchmarks.toolkit.frames import Settings
from asr_benchmarks.toolkit.lightning import Lightning


class Lean(Lightning):
    """As Lightning, with LeanTask and an optimizer whose step is one kernel. precision: as the key of that name; 32
    computes what the others do.
    """

    task_name = "LeanTask"

    def __init__(self, folder: str, settings: Settings, config: str, *, precision: int | str) -> None:
        super().__init__(folder, settings, config)
        self.cfg.precision = precision

    def _optimizer(self, parameters: Any) -> Any:
        from torch.optim import SGD

        return SGD(parameters, lr=self.settings.lr, momentum=self.settings.momentum, fused=True)
