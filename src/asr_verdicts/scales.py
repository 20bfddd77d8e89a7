"""The scales for differences: points of the metric, or percent of the baseline's rate."""

import math
from collections.abc import Sequence
from typing import TypeAlias

from asr_verdicts.metrics import SHARE, Metric, format_interval

MOST_LOG = 5.0  # log ratio from which the end of an interval counts as infinite (a ratio of about 150)


class Points:
    """The scale for absolute differences, shown in points of the metric."""

    name = "points"

    def weights(self, weights: Sequence[float], means: Sequence[float]) -> list[float] | None:
        """Return the weight of each mean rate in the linearised difference; None if the difference is undefined."""
        return list(weights)

    def value(self, weights: Sequence[float], means: Sequence[float]) -> float:
        """Return the difference: Σ weight · mean in points, or Σ weight · log(mean) on the relative scale."""
        return sum(weight * mean for weight, mean in zip(weights, means, strict=True))

    def degrees(self, drawn: int, effective: float) -> float:
        """Return the degrees of freedom of the variation between speakers.

        - drawn: number of speakers
        - effective: effective number of speakers, which is smaller if a few speakers cause most of the errors
        """
        return drawn - 1

    def fraction(self, value: float) -> float:
        """Convert a difference to the recorded metric's unit or, if relative, to a fraction of the baseline's rate."""
        return value

    def metric(self, metric: Metric) -> Metric:
        """Return the metric that formats the values returned by `fraction`."""
        return metric

    def size(self, value: float, metric: Metric) -> str:
        return f"{metric.text(value, sign=True)} {metric.amount}"

    def interval(self, low: float, high: float, metric: Metric) -> str:
        """Format both ends with their unit; return "" if one of them is infinite."""
        return format_interval(low, high, metric, otherwise="")

    def margin(self, margin: float, metric: Metric) -> str:
        return metric.count(margin)


class Relative:
    """The scale for differences of log rates, shown in percent of the baseline's rate. See `Points` for the methods."""

    name = "relative"

    def weights(self, weights: Sequence[float], means: Sequence[float]) -> list[float] | None:
        if min(means) <= 0:
            return None
        return [weight / mean for weight, mean in zip(weights, means, strict=True)]

    def value(self, weights: Sequence[float], means: Sequence[float]) -> float:
        return sum(weight * math.log(mean) for weight, mean in zip(weights, means, strict=True))

    def degrees(self, drawn: int, effective: float) -> float:
        return effective - 1

    def fraction(self, value: float) -> float:
        return math.expm1(value) if value < MOST_LOG else math.inf

    def metric(self, metric: Metric) -> Metric:
        return SHARE

    def size(self, value: float, metric: Metric) -> str:
        return f"{SHARE.text(self.fraction(value), sign=True)} % relative"

    def interval(self, low: float, high: float, metric: Metric) -> str:
        ends = self.fraction(low), self.fraction(high)
        return format_interval(*ends, SHARE, between=" % to ", otherwise="") and (
            f"{format_interval(*ends, SHARE, between=' % to ')} %"
        )

    def margin(self, margin: float, metric: Metric) -> str:
        return f"{100 * self.fraction(margin):.4g} % of the {metric.label}"


Scale: TypeAlias = Points | Relative  # the scale used for differences, margins, intervals and decisions
POINTS: Scale = Points()
RELATIVE: Scale = Relative()
SCALES: dict[str, Scale] = {scale.name: scale for scale in (POINTS, RELATIVE)}
