"""The metrics of a comparison, of which lower is better, and ratios of times."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import ConfiguredRun, Record

LARGEST_RATE = 2.0
"""Largest accepted target: errors can outnumber words, but a higher value is a percentage by mistake."""


@dataclass(frozen=True)
class Metric:
    """A metric with its label, unit and scale.

    name: its key in summary.json and metrics.csv. label, unit: as reports name them; scale: from a recorded value to
    the unit; places: digits after the point. amount: the unit of a difference. is_rate: errors over the words or
    characters of utterances, recorded for each utterance and as a fraction; else a mean that is known for sets only.
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
        """Label and unit, as a table's head or an axis has them."""
        return f"{self.label} %" if self.is_rate else f"{self.label}, {self.unit}"

    def curve_key(self, validation_set: str | None) -> str:
        """Its column of metrics.csv."""
        return f"validation/{validation_set}/{self.name}"

    def text(self, value: float | None, *, sign: bool = False) -> str:
        """A recorded value in the unit, without the unit; NA for None. sign: + before what is not negative."""
        if value is None:
            return "NA"
        return f"{self.scale * value:{'+' if sign else ''}.{self.places}f}".replace("-", "−")

    def about(self, value: float) -> str:
        """A recorded difference in the unit with two digits, without the unit."""
        return f"{self.scale * value:.{max(0, 1 - math.floor(math.log10(self.scale * value)))}f}"

    def count(self, value: float) -> str:
        """A recorded difference with its unit, such as 0.5 points or 1 point."""
        number = f"{self.scale * value:.4g}"
        return f"{number} {self.amount.removesuffix('s') if number == '1' else self.amount}"

    def spread(self, mean: float | None, deviation: float | None) -> str:
        """Mean ± standard deviation in the unit, without the unit; without ± for a single value."""
        return self.text(mean) if mean is None or deviation is None else f"{self.text(mean)} ± {self.text(deviation)}"

    def target_text(self, target: float) -> str:
        """A target with its unit, such as WER 20 %."""
        return f"{self.label} {self.scale * target:.3g} {self.unit}"

    def check_target(self, target: float) -> float:
        """The target; raises UsageError for one that cannot be meant, such as a WER of 20 for 20 %."""
        if self.is_rate and not 0 < target <= LARGEST_RATE:
            raise choices("target", target, "a rate as a fraction: 0.2 is 20 %")
        if not target > 0:
            raise choices("target", target, f"a {self.label} above 0, in {self.unit}")
        return target


WER = Metric("wer", "WER", "%", "points", 100, 2, is_rate=True)
CER = Metric("cer", "CER", "%", "points", 100, 2, is_rate=True)
CER_LONGER = Metric("cer_longer", "CER (longer)", "%", "points", 100, 2, is_rate=True)
"""Over the longer of reference and hypothesis (Baunsgaard2020 §4.1.1, equation 3)."""
LOSS = Metric("loss", "loss", "nats", "nats", 1, 4, is_rate=False)
"""The loss component's own, as its `reduction` says: by default nats per label, or per frame of frame labels, and
the mean over utterances.
"""
METRICS = {metric.name: metric for metric in (WER, CER, CER_LONGER, LOSS)}


SHARE = Metric("relative", "relative", "%", "%", 100, 1, is_rate=True)
"""A difference as a share of the baseline's rate, whatever the metric; no metric of its own."""


def format_interval(
    low: float | None, high: float | None, metric: Metric, *, between: str = " to ", otherwise: str = "NA"
) -> str:
    """Both ends in the unit of the metric, as recorded values; `otherwise` without finite ends."""
    if low is None or high is None or not math.isfinite(high - low):
        return otherwise
    return f"{metric.text(low, sign=True)}{between}{metric.text(high, sign=True)}"


def format_p(p: float | None, name: str = "") -> str:
    """A p-value with three digits. name: "p" in a sentence, "" in a table; NA without one."""
    if p is None or math.isnan(p):
        return "NA"
    sign = "< 0.001" if p < 0.001 else f"{'= ' if name else ''}{p:.3f}"
    return f"{name} {sign}".strip()


def find_metric(name: str) -> Metric:
    """The metric of this name. Raises UsageError with the choices."""
    if name not in METRICS:
        raise choices("metric", name, " or ".join(METRICS))
    return METRICS[name]


def measured_sets(metric: Metric, runs: Sequence[Record]) -> list[str]:
    """The sets on which arms are compared: for rates the test sets; for the loss the first validation set, by which
    Ambroszczyk2019 §2.1 decides, and then the test sets.
    """
    tests = [str(name) for run in runs for name in run.summary.test_sets]
    validation = [] if metric.is_rate else [name for run in runs if (name := validation_set(run)) is not None]
    return list(dict.fromkeys([*validation, *tests]))


def validation_sets(runs: Sequence[Record]) -> list[str]:
    """The sets with results that are no test sets, by which training was steered."""
    tests = {str(name) for run in runs for name in run.summary.test_sets}
    return list(dict.fromkeys(str(name) for run in runs for name in run.summary.sets if name not in tests))


def check_comparable(metric: Metric, runs: Sequence[ConfiguredRun]) -> None:
    """Raises UsageError where runs minimise different losses, whose values mean different things."""
    losses = different_losses(runs)
    if not metric.is_rate and len(losses) > 1:
        names = ", ".join(losses)
        raise UsageError(f"metric={metric.name}: the runs minimise different losses ({names}); expected a rate")


def different_losses(runs: Sequence[ConfiguredRun]) -> list[str]:
    """The loss components of the runs by class, with the reduction, once for each different config of them."""
    losses = {json.dumps(run.config.get("loss"), sort_keys=True): run.config.get("loss") or {} for run in runs}
    return [_loss_name(loss) for loss in losses.values()]


def _loss_name(loss: Mapping[str, object]) -> str:
    name = str(loss.get("_target_")).rpartition(".")[2]
    return f"{name} with reduction={loss['reduction']}" if "reduction" in loss else name


def validation_set(run: Record) -> str | None:
    """The set by which the best checkpoint is chosen: the first validation set."""
    return next(iter(run.validation_sets), None)
