"""The table metrics.csv: values that training logs, kept across interruptions."""

import csv
from collections.abc import Mapping
from pathlib import Path

import torch
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.loggers.csv_logs import ExperimentWriter

from asr_ablations.runs.layout import METRICS
from asr_ablations.runs.metrics_files import truncate
from asr_ablations.tools.machine import rank
from asr_verdicts.files import write_csv


class MetricsTable(CSVLogger):
    """Lightning's CSV logger, but it keeps the first `rows` rows of an existing file instead of deleting it."""

    def __init__(self, folder: Path, rows: int) -> None:
        super().__init__(save_dir=str(folder), name="", version="")
        self.rows = 0
        if rank():
            return
        old_rows = truncate(folder / METRICS, rows)
        self._experiment = _ContinuedWriter(str(folder), sorted(old_rows[0]) if old_rows else [])
        self.rows = len(old_rows)

    def log_metrics(self, metrics: Mapping[str, torch.Tensor | float], step: int | None = None) -> None:
        super().log_metrics(dict(metrics), step)
        self.rows += 1


class _ContinuedWriter(ExperimentWriter):
    def __init__(self, folder: str, keys: list[str]) -> None:
        super().__init__(folder)
        self.metrics_keys = keys

    def _check_log_dir_exists(self) -> None:
        pass

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        path = Path(self.metrics_file_path)
        with path.open(newline="", encoding="utf-8") as file:
            rows = [{key: row.get(key, "") for key in fieldnames} for row in csv.DictReader(file)]
        write_csv(path, rows)  # Lightning rewrites in place: a kill in the middle would lose every row
