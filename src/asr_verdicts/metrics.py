"""The metrics that comparisons use. For all of them, lower is better."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import ConfiguredRun, Record

# largest valid target for an error rate, as a fraction: rates can exceed 1, but a larger number is probably in percent
LARGEST_RATE = 2.0


@dataclass(frozen=True)
class Metric:
    """A metric with its label, unit and scale.

    - name: key in summary.json and metrics.csv
    - label, unit: label and unit in reports
    - amount: unit of a difference, such as points
    - scale: factor that converts recorded values to the unit
    - places: number of digits after the decimal point
    - is_rate: whether the metric is an error rate, which is a fraction computed from the error counts of utterances.
      Other metrics are means over a set.
    """

    name: str
    label: str
    unit: str
    amount: str
    scale: float
    places: int
    is_rate: bool

    @property
    def heading(self) -> str:
        """The label and unit, for the heading of a table column or an axis."""
        return f"{self.label} %" if self.is_rate else f"{self.label}, {self.unit}"

    def curve_key(self, validation_set: str | None) -> str:
        """Return the name of the column in metrics.csv with this metric on a validation set."""
        return f"validation/{validation_set}/{self.name}"

    def text(self, value: float | None, *, sign: bool = False) -> str:
        """Format a recorded value without its unit, and None as NA. sign: whether to put + before values ≥ 0."""
        if value is None:
            return "NA"
        return f"{self.scale * value:{'+' if sign else ''}.{self.places}f}".replace("-", "−")

    def about(self, value: float) -> str:
        """Format a recorded difference with two significant digits, without its unit."""
        return f"{self.scale * value:.{max(0, 1 - math.floor(math.log10(self.scale * value)))}f}"

    def count(self, value: float) -> str:
        """Format a recorded difference with its unit, such as 0.5 points or 1 point."""
        number = f"{self.scale * value:.4g}"
        return f"{number} {self.amount.removesuffix('s') if number == '1' else self.amount}"

    def spread(self, mean: float | None, deviation: float | None) -> str:
        """Format mean ± standard deviation without the unit, or the mean alone if the deviation is None."""
        return self.text(mean) if mean is None or deviation is None else f"{self.text(mean)} ± {self.text(deviation)}"

    def target_text(self, target: float) -> str:
        """Format a target with the metric's label and unit, such as WER 20 %."""
        return f"{self.label} {self.scale * target:.3g} {self.unit}"

    def check_target(self, target: float) -> float:
        """Return the target. Raises UsageError if it is out of range, such as a WER of 20 instead of 0.2."""
        if self.is_rate and not 0 < target <= LARGEST_RATE:
            raise choices("target", target, "a rate as a fraction: 0.2 is 20 %")
        if not target > 0:
            raise choices("target", target, f"a {self.label} above 0, in {self.unit}")
        return target


WER = Metric("wer", "WER", "%", "points", 100, 2, is_rate=True)
CER = Metric("cer", "CER", "%", "points", 100, 2, is_rate=True)
# character errors divided by the longer of the lengths of reference and hypothesis (Baunsgaard2020 §4.1.1, equation 3)
CER_LONGER = Metric("cer_longer", "CER (longer)", "%", "points", 100, 2, is_rate=True)
# the unit depends on the `reduction` of the loss: by default nats per label (or per frame for frame labels), averaged
# over utterances
LOSS = Metric("loss", "loss", "nats", "nats", 1, 4, is_rate=False)
METRICS = {metric.name: metric for metric in (WER, CER, CER_LONGER, LOSS)}

# formats relative differences of any metric in percent of the baseline's rate; users cannot choose it as a metric
SHARE = Metric("relative", "relative", "%", "%", 100, 1, is_rate=True)


def format_interval(
    low: float | None, high: float | None, metric: Metric, *, between: str = " to ", otherwise: str = "NA"
) -> str:
    """Format both ends of an interval in the metric's unit; return `otherwise` if one is None or infinite."""
    if low is None or high is None or not math.isfinite(high - low):
        return otherwise
    return f"{metric.text(low, sign=True)}{between}{metric.text(high, sign=True)}"


def format_p(p: float | None, name: str = "") -> str:
    """Format a p-value with three decimals, and None or nan as NA. name: prefix, "p" in a sentence or "" in a table."""
    if p is None or math.isnan(p):
        return "NA"
    sign = "< 0.001" if p < 0.001 else f"{'= ' if name else ''}{p:.3f}"
    return f"{name} {sign}".strip()


def find_metric(name: str) -> Metric:
    """Return the metric with this name. Raises UsageError if there is none."""
    if name not in METRICS:
        raise choices("metric", name, " or ".join(METRICS))
    return METRICS[name]


def measured_sets(metric: Metric, runs: Sequence[Record]) -> list[str]:
    """Return the sets on which arms are compared: the test sets. For the loss, a validation set comes first.

    Ambroszczyk2019 §2.1 compares systems by their loss on the validation set.
    """
    tests = [str(name) for run in runs for name in run.summary.test_sets]
    validation = [] if metric.is_rate else [name for run in runs if (name := validation_set(run)) is not None]
    return list(dict.fromkeys([*validation, *tests]))


def validation_sets(runs: Sequence[Record]) -> list[str]:
    """Return the sets that have results but are not test sets. They were used for validation during training."""
    tests = {str(name) for run in runs for name in run.summary.test_sets}
    return list(dict.fromkeys(str(name) for run in runs for name in run.summary.sets if name not in tests))


def check_comparable(metric: Metric, runs: Sequence[ConfiguredRun]) -> None:
    """Raise UsageError if the metric is the loss, and the runs have different losses or alphabets.

    A loss per letter cannot be compared with a loss per word piece.
    """
    if metric.is_rate:
        return
    if len(losses := different_losses(runs)) > 1:
        names = ", ".join(losses)
        raise UsageError(f"metric={metric.name}: the runs minimise different losses ({names}); expected an error rate")
    if len({json.dumps(run.config.get("alphabet"), sort_keys=True) for run in runs}) > 1:
        raise UsageError(f"metric={metric.name}: the runs have different alphabets; expected an error rate")


def different_losses(runs: Sequence[ConfiguredRun]) -> list[str]:
    """Return the name and reduction of each distinct loss config among the runs."""
    losses = {json.dumps(run.config.get("loss"), sort_keys=True): run.config.get("loss") or {} for run in runs}
    names = []
    for loss in losses.values():
        name = str(loss.get("_target_")).rpartition(".")[2]
        names.append(f"{name} with reduction={loss['reduction']}" if "reduction" in loss else name)
    return names


def validation_set(run: Record) -> str | None:
    """Return the run's first validation set, on which the best checkpoint is chosen; None if there is none."""
    return next(iter(run.validation_sets), None)
