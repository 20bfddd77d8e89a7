"""The scale of a difference: points of the metric, or a share of the baseline's rate."""

import math
from collections.abc import Sequence
from typing import Protocol

from asr_verdicts.metrics import SHARE, Metric, format_interval

MOST_LOG = 5.0  # logarithm of a ratio, 150 times as much, from which on an interval's end counts as infinite


class Scale(Protocol):
    """A scale of values, margins and intervals, on which questions are decided. Texts have its unit."""

    name: str

    def weights(self, weights: Sequence[float], means: Sequence[float]) -> list[float] | None:
        """The weights of the arms' mean rates in the linearised difference; None if it does not exist."""

    def value(self, weights: Sequence[float], means: Sequence[float]) -> float:
        """The difference: Σ weight · mean, or Σ weight · log(mean)."""

    def degrees(self, drawn: int, effective: float) -> float:
        """Degrees of freedom of the noise of speakers. drawn: their number; effective: the number they count as."""

    def fraction(self, value: float) -> float:
        """The value as a fraction: of words, or of the baseline's rate."""

    def metric(self, metric: Metric) -> Metric:
        """The metric with the unit of such a fraction."""

    def size(self, value: float, metric: Metric) -> str: ...

    def interval(self, low: float, high: float, metric: Metric) -> str:
        """Both ends; "" if they are not finite."""

    def margin(self, margin: float, metric: Metric) -> str: ...


class Points:
    """Differences of the rates themselves."""

    name = "points"

    def weights(self, weights: Sequence[float], means: Sequence[float]) -> list[float] | None:
        return list(weights)

    def value(self, weights: Sequence[float], means: Sequence[float]) -> float:
        return sum(weight * mean for weight, mean in zip(weights, means, strict=True))

    def degrees(self, drawn: int, effective: float) -> float:
        return drawn - 1

    def fraction(self, value: float) -> float:
        return value

    def metric(self, metric: Metric) -> Metric:
        return metric

    def size(self, value: float, metric: Metric) -> str:
        return f"{metric.text(value, sign=True)} {metric.amount}"

    def interval(self, low: float, high: float, metric: Metric) -> str:
        return format_interval(low, high, metric, otherwise="")

    def margin(self, margin: float, metric: Metric) -> str:
        return metric.count(margin)


class Relative:
    """Differences of the rates' logarithms, where factors multiply; shown as shares of the baseline's rate."""

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


POINTS: Scale = Points()
RELATIVE: Scale = Relative()
SCALES: dict[str, Scale] = {scale.name: scale for scale in (POINTS, RELATIVE)}
