"""The metrics of a comparison. Lower is better for all of them."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import ConfiguredRun, Record

LARGEST_RATE = 2.0  # largest accepted target: errors can outnumber words, but a higher value was meant as a percentage


@dataclass(frozen=True)
class Metric:
    """A metric with its label, unit and scale.

    - name: its key in summary.json and metrics.csv; label, unit: in reports; amount: the unit of a difference
    - scale: units per recorded value; places: digits after the point
    - is_rate: errors over words or characters, recorded per utterance as a fraction; else a mean known for sets only
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
        """Label and unit, for the head of a table or an axis."""
        return f"{self.label} %" if self.is_rate else f"{self.label}, {self.unit}"

    def curve_key(self, validation_set: str | None) -> str:
        """The metric's column in metrics.csv."""
        return f"validation/{validation_set}/{self.name}"

    def text(self, value: float | None, *, sign: bool = False) -> str:
        """Format a recorded value without its unit; NA for None. sign: + before values that are not negative."""
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
        """Format mean ± standard deviation without the unit; a single value has no ±."""
        return self.text(mean) if mean is None or deviation is None else f"{self.text(mean)} ± {self.text(deviation)}"

    def target_text(self, target: float) -> str:
        """Format a target with its unit, such as WER 20 %."""
        return f"{self.label} {self.scale * target:.3g} {self.unit}"

    def check_target(self, target: float) -> float:
        """Return the target. Raises UsageError for an impossible one, such as a WER of 20 for 20 %."""
        if self.is_rate and not 0 < target <= LARGEST_RATE:
            raise choices("target", target, "a rate as a fraction: 0.2 is 20 %")
        if not target > 0:
            raise choices("target", target, f"a {self.label} above 0, in {self.unit}")
        return target


WER = Metric("wer", "WER", "%", "points", 100, 2, is_rate=True)
CER = Metric("cer", "CER", "%", "points", 100, 2, is_rate=True)
# over the longer of reference and hypothesis (Baunsgaard2020 §4.1.1, equation 3)
CER_LONGER = Metric("cer_longer", "CER (longer)", "%", "points", 100, 2, is_rate=True)
# as the loss component's `reduction` defines it: by default nats per label (per frame for frame labels), the mean over
# utterances
LOSS = Metric("loss", "loss", "nats", "nats", 1, 4, is_rate=False)
METRICS = {metric.name: metric for metric in (WER, CER, CER_LONGER, LOSS)}

# a difference as a share of the baseline's rate, for any metric; not one of METRICS
SHARE = Metric("relative", "relative", "%", "%", 100, 1, is_rate=True)


def format_interval(
    low: float | None, high: float | None, metric: Metric, *, between: str = " to ", otherwise: str = "NA"
) -> str:
    """Format both ends in the unit of the metric, or return `otherwise` if they are not finite."""
    if low is None or high is None or not math.isfinite(high - low):
        return otherwise
    return f"{metric.text(low, sign=True)}{between}{metric.text(high, sign=True)}"


def format_p(p: float | None, name: str = "") -> str:
    """Format a p-value with three digits; NA without one. name: "p" in a sentence, "" in a table."""
    if p is None or math.isnan(p):
        return "NA"
    sign = "< 0.001" if p < 0.001 else f"{'= ' if name else ''}{p:.3f}"
    return f"{name} {sign}".strip()


def find_metric(name: str) -> Metric:
    """The metric with this name. Raises UsageError with the choices."""
    if name not in METRICS:
        raise choices("metric", name, " or ".join(METRICS))
    return METRICS[name]


def measured_sets(metric: Metric, runs: Sequence[Record]) -> list[str]:
    """The sets on which arms are compared: the test sets, preceded for the loss by the first validation set.

    Ambroszczyk2019 §2.1 decides by the loss on that set.
    """
    tests = [str(name) for run in runs for name in run.summary.test_sets]
    validation = [] if metric.is_rate else [name for run in runs if (name := validation_set(run)) is not None]
    return list(dict.fromkeys([*validation, *tests]))


def validation_sets(runs: Sequence[Record]) -> list[str]:
    """The sets with results that are not test sets; they steered training."""
    tests = {str(name) for run in runs for name in run.summary.test_sets}
    return list(dict.fromkeys(str(name) for run in runs for name in run.summary.sets if name not in tests))


def check_comparable(metric: Metric, runs: Sequence[ConfiguredRun]) -> None:
    """Raise UsageError if the metric is the loss and the runs minimise different losses."""
    losses = different_losses(runs)
    if not metric.is_rate and len(losses) > 1:
        names = ", ".join(losses)
        raise UsageError(f"metric={metric.name}: the runs minimise different losses ({names}); expected a rate")


def different_losses(runs: Sequence[ConfiguredRun]) -> list[str]:
    """The names of the runs' losses with their reduction, one for each different config of the loss."""
    losses = {json.dumps(run.config.get("loss"), sort_keys=True): run.config.get("loss") or {} for run in runs}
    return [_loss_name(loss) for loss in losses.values()]


def _loss_name(loss: Mapping[str, object]) -> str:
    name = str(loss.get("_target_")).rpartition(".")[2]
    return f"{name} with reduction={loss['reduction']}" if "reduction" in loss else name


def validation_set(run: Record) -> str | None:
    """The set that chooses the best checkpoint: the first validation set."""
    return next(iter(run.validation_sets), None)
