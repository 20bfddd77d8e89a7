"""Nothing beside the record: every run folder has metrics.csv anyway."""

from asr_ablations.runs.folder import Run


def no_further_logger(run: Run) -> None:
    """The record's metrics.csv is the log."""
