"""The project's loop with nothing in it that training does not need, and with products in `precision` bits."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from asr_benchmarks.toolkit.frames import Settings
from asr_benchmarks.toolkit.project_loop import ProjectLoop

if TYPE_CHECKING:
    import torch
    from torch import nn

    from asr_ablations.components.model.ds2 import DeepSpeech2
    from asr_benchmarks.toolkit.task import FrameTask


class Minimal(ProjectLoop):
    """An engine as ProjectLoop, with MinimalTask and an optimizer whose step is one kernel.

    precision: as the key of that name; 32 computes what the other engines compute.
    """

    def __init__(self, folder: str, settings: Settings, config: str, *, precision: int | str) -> None:
        super().__init__(folder, settings, config)
        self.cfg.precision = precision

    def make_task(self, model: "DeepSpeech2") -> "FrameTask":
        from asr_benchmarks.toolkit.task import MinimalTask

        return MinimalTask(model, self.make_optimizer, self.settings.seed)

    def make_optimizer(self, parameters: "Iterable[nn.Parameter]") -> "torch.optim.Optimizer":
        from torch.optim import SGD

        return SGD(parameters, lr=self.settings.lr, momentum=self.settings.momentum, fused=True)
