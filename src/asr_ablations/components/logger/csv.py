"""No additional logger: every run folder has metrics.csv anyway."""

from asr_ablations.runs.folder import Run


def no_further_logger(run: Run) -> None:
    """Return None: the run folder's metrics.csv is the log."""
