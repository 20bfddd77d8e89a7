"""No logger in addition to metrics.csv, which every run folder has."""

from asr_ablations.runs.folder import Run


def no_further_logger(run: Run) -> None:
    """Return None to add no logger. Every run writes metrics.csv anyway."""
