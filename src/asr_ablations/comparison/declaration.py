"""What a sweep file declares before its runs: the question, and what decides it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from asr_ablations.runs.record import RunRecord
from asr_ablations.tools.errors import UsageError, choices

Published = dict[str, dict[str, float]]
"""WER in percent by arm and test set."""

EXPECTABLE = ("better", "worse", "equivalent", "interaction shown")
"""What a source can say of a question, in the words of the verdicts."""

FACTORIAL = "factorial"
"""contrasts: factorial asks for all main effects, simple effects and interactions of two factors."""


@dataclass(frozen=True)
class Declaration:
    """The keys of `ablation` in a config, which a sweep file sets.

    factor: keys or groups in which the arms may differ. baseline: an arm. set: the test set that decides, by default
    the first; metric: wer, cer, cer_longer or loss. contrasts: what is compared (comparison.questions), by default
    every arm with the baseline, or all effects where two factors are crossed. targets: rates for the time to accuracy,
    0.2 is 20 %. published: of the source, under the names of its own arms. expected: what the source says of a
    question (an arm, or an effect as tables call it): the verdict, or a list of those that agree (EXPECTABLE).
    """

    question: str | None = None
    source: str | None = None
    claim: str | None = None
    factor: list[str] = field(default_factory=list)
    baseline: str | None = None
    set: str | None = None
    metric: str | None = None
    contrasts: list[str] = field(default_factory=list)
    targets: list[float] = field(default_factory=list)
    published: Published = field(default_factory=dict)
    expected: dict[str, list[str]] = field(default_factory=dict)


def declaration(runs: Sequence[RunRecord]) -> Declaration:
    """What the runs declare, from the first that does. Raises UsageError for keys and values of another form, and for
    runs that declare different factors.
    """
    declared = [parse(run.config["ablation"]) for run in runs if run.config.get("ablation")]
    factors = {tuple(one.factor) for one in declared if one.factor}
    if len(factors) > 1:
        names = " and ".join(sorted(", ".join(factor) for factor in factors))
        raise UsageError(f"the runs declare different factors (ablation.factor): {names}")
    return declared[0] if declared else Declaration()


def parse(node: object) -> Declaration:
    """The declaration in a config's `ablation`. Raises UsageError for what is none."""
    if not isinstance(node, Mapping):
        raise UsageError(f"ablation={node}: expected keys such as question and factor")
    known = [one.name for one in fields(Declaration)]
    for key in node:
        if key not in known:
            raise choices("ablation", key, f"one of {', '.join(known)}")
    given = {str(key): value for key, value in node.items() if value is not None}
    return Declaration(
        **{
            key: str(given[key]) for key in ("question", "source", "claim", "baseline", "set", "metric") if key in given
        },
        factor=_texts(given.get("factor")),
        contrasts=_texts(given.get("contrasts")),
        targets=_numbers(given.get("targets")),
        published=_published(given.get("published")),
        expected=_expected(given.get("expected")),
    )


def _texts(value: object) -> list[str]:
    return [] if value is None else [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _numbers(value: object) -> list[float]:
    try:
        return [float(text) for text in _texts(value)]
    except ValueError as error:
        raise choices("ablation.targets", value, "rates as fractions: 0.2 is 20 %") from error


def _published(value: object) -> Published:
    if value is None:
        return {}
    try:
        assert isinstance(value, Mapping)
        return {str(arm): {str(set_): float(rate) for set_, rate in rates.items()} for arm, rates in value.items()}
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"ablation.published={value}: expected {{arm: {{set: WER in percent}}}}") from error


def _expected(value: object) -> dict[str, list[str]]:
    if value is None:
        return {}
    verdicts = {str(name): _texts(of) for name, of in value.items()} if isinstance(value, Mapping) else {"": [""]}
    if not {one for of in verdicts.values() for one in of} <= set(EXPECTABLE):
        raise UsageError(f"ablation.expected={value}: expected {{question: one or several of {', '.join(EXPECTABLE)}}}")
    return verdicts
