"""The `ablation` section of a sweep file, which declares the question and how it is decided."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from asr_verdicts.errors import UsageError, choices
from asr_verdicts.record import ConfiguredRun
from asr_verdicts.scales import POINTS, RELATIVE, Scale

FACTORIAL = "factorial"  # entry of `contrasts` that requests all main effects, simple effects and interactions


@dataclass(frozen=True)
class Declaration:
    """The `ablation` section of a config, which a sweep file sets.

    - question, source: the question in words, and the publication that it comes from
    - factor: config keys or groups in which the arms may differ
    - baseline: name of the arm with which the other arms are compared
    - set: primary test set, whose verdicts are the answer; by default the first test set
    - metric: metric to compare: wer, cer, cer_longer or loss
    - contrasts: questions (see questions.py), by default each arm against the baseline, or all effects of two factors
    - scale: scale used for decisions: points or relative
    - margin: largest difference that would not matter, in points (2.0) or in percent of the baseline's rate (5%)
    - failed: rule that decides which runs count as failed (see failures.py)
    - targets: values of the metric for which the time to accuracy is reported, with error rates as fractions
    """

    question: str | None = None
    source: str | None = None
    factor: list[str] = field(default_factory=list)
    baseline: str | None = None
    set: str | None = None
    metric: str | None = None
    contrasts: list[str] = field(default_factory=list)
    scale: Scale = POINTS
    margin: float | str | None = None
    failed: object = None
    targets: list[float] = field(default_factory=list)


TEXTS = ("question", "source", "baseline", "set", "metric")
PUBLISHING_KEYS = ("published", "claim", "expected", "withdrawn", "earlier")  # keys that only sweeps/publish uses


def declaration(runs: Sequence[ConfiguredRun]) -> Declaration:
    """Return the declaration of the first run that has one.

    Raises UsageError for invalid keys or values, and if the runs declare different factors.
    """
    declared = [parse(run.config["ablation"]) for run in runs if run.config.get("ablation")]
    factors = {tuple(each.factor) for each in declared if each.factor}
    if len(factors) > 1:
        names = " and ".join(sorted(", ".join(factor) for factor in factors))
        raise UsageError(f"the runs declare different factors (ablation.factor): {names}")
    return declared[0] if declared else Declaration()


def parse(node: object) -> Declaration:
    """Parse the `ablation` section of a config. Raises UsageError if it is not a valid declaration."""
    if not isinstance(node, Mapping):
        raise UsageError(f"ablation={node}: expected keys such as question and factor")
    allowed = [*(each.name for each in fields(Declaration)), *PUBLISHING_KEYS]
    for key in node:
        if key not in allowed:
            raise choices("ablation", key, f"one of {', '.join(allowed)}")
    given = {str(key): value for key, value in node.items() if value is not None}
    for key in TEXTS:
        if isinstance(given.get(key), (Mapping, list)):
            raise UsageError(f"ablation.{key}={given[key]}: expected a string")
    return Declaration(
        **{key: str(given[key]) for key in TEXTS if key in given},
        factor=_list_texts(given.get("factor")),
        contrasts=_list_texts(given.get("contrasts")),
        scale=_parse_scale(given.get("scale"), given.get("margin")),
        margin=given.get("margin"),
        failed=given.get("failed"),
        targets=_list_numbers(given.get("targets")),
    )


def _parse_scale(value: object, margin: object) -> Scale:
    if value not in (None, "points", "relative"):
        raise choices("ablation.scale", value, "points or relative")
    scale: Scale = RELATIVE if value == "relative" or (value is None and str(margin).endswith("%")) else POINTS
    if margin is not None:
        margin_on(margin, scale, 1.0, "ablation.margin")  # raises UsageError if the margin is invalid
    return scale


def margin_on(margin: object, scale: Scale, unit: float, name: str) -> float:
    """Convert a margin, such as 2.0 or 5%, to the unit used for decisions.

    For error rates, 2.0 points become 0.02. On the relative scale, 5% becomes the logarithm of 1.05.

    - unit: points per unit of the recorded metric: 100 for error rates, 1 for the loss
    - name: name of the setting in error messages

    Raises UsageError if the margin is malformed or does not fit the scale.
    """
    text = str(margin)
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value <= 100 or isinstance(margin, bool):
        raise choices(name, margin, "the difference that would not matter: 2.0 for 2 points, or 5% of the rate")
    if text.endswith("%") != (scale is RELATIVE):
        wanted = "a percentage, such as 5%," if scale is RELATIVE else "points, such as 2.0,"
        raise choices(name, margin, f"{wanted} because ablation.scale is {scale.name}")
    return math.log1p(value / 100) if scale is RELATIVE else value / unit


def _list_texts(value: object) -> list[str]:
    return [] if value is None else [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _list_numbers(value: object) -> list[float]:
    try:
        return [float(text) for text in _list_texts(value)]
    except ValueError as error:
        raise choices("ablation.targets", value, "rates as fractions: 0.2 is 20 %") from error
