"""Profiling of a few training steps by operation, with torch.profiler."""

import pytorch_lightning as pl
from torch.profiler import ProfilerActivity, profile

from asr_ablations.runs.layout import PROFILE, TRACE
from asr_ablations.tools.checks import whole
from asr_ablations.tools.machine import rank
from asr_ablations.training.contracts import Debugging
from asr_verdicts.files import write

ROWS = 30
"""Number of operations in the table, which lists those with the longest self time."""


class Profile(Debugging):
    """Limits each set to `wait` + `steps` batches, and profiles the last `steps` batches of the first epoch.

    Writes a table to profile.txt and a trace to profile.json. Raises UsageError if `steps` < 1 or `wait` < 0.
    """

    def __init__(self, *, wait: int, steps: int) -> None:
        self.wait = whole("debug.wait", wait, 0)
        self.batches = self.wait + whole("debug.steps", steps, 1)
        self._profile: profile | None = None

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: object, batch_idx: int
    ) -> None:
        if batch_idx == self.wait and trainer.current_epoch == 0 and self.folder is not None and not rank():
            on_gpu = [ProfilerActivity.CUDA] if pl_module.device.type == "cuda" else []
            self._profile = profile(activities=[ProfilerActivity.CPU, *on_gpu], acc_events=True)
            self._profile.start()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if batch_idx + 1 == self.batches or trainer.is_last_batch:
            self._close()

    def _close(self) -> None:
        recorded, self._profile = self._profile, None
        if recorded is None or self.folder is None:
            return
        recorded.stop()
        device = "cuda" if ProfilerActivity.CUDA in recorded.activities else "cpu"
        table = recorded.key_averages().table(sort_by=f"self_{device}_time_total", row_limit=ROWS)
        write(self.folder / PROFILE, f"{table}\n")
        recorded.export_chrome_trace(str(self.folder / TRACE))
        print(f"profile  {self.folder / PROFILE}, and a trace for ui.perfetto.dev: {TRACE}", flush=True)
