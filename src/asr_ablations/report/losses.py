"""The section on validation loss against WER."""

from asr_ablations.comparison.loss_against_wer import LossAgainstWer, loss_against_wer
from asr_ablations.comparison.result import Comparison
from asr_ablations.report.section import Section


def loss_section(comparison: Comparison) -> Section:
    """Spearman's rank correlation over all runs (Ambroszczyk2019 §2.1)."""
    rows = [_row(measured) for measured in loss_against_wer(comparison.arms, comparison.sets)]
    line = (
        "Over all runs of all arms. Near 1, validation loss ranks the runs as WER does; the interval treats runs as "
        "independent, although seeds of an arm are alike."
    )
    return Section("Validation loss against WER", ["of", "n", "rank correlation", "95 %"], rows, [line] if rows else [])


def _row(measured: LossAgainstWer) -> list[str]:
    rho = measured.correlation
    value, interval = ("NA", "NA") if rho is None else (f"{rho.value:.2f}", f"{rho.low:.2f} to {rho.high:.2f}")
    return [measured.name, str(len(measured.points)), value, interval]
