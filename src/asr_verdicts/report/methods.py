"""Write the methods paragraph of a paper from a comparison."""

from asr_verdicts.arms import shared_start
from asr_verdicts.comparison import Comparison
from asr_verdicts.scales import RELATIVE
from asr_verdicts.sentences import units_text
from asr_verdicts.statistics.estimate import UNKNOWN, Estimate
from asr_verdicts.version import VERSION

RATES = {
    "wer": "Word error rates",
    "cer": "Character error rates",
    "cer_longer": "Character error rates, over the longer of reference and hypothesis,",
    "loss": "Losses",
}
PROCEDURES = {
    "fixed": "The number of seeds was fixed in advance.",
    "assumed": "The tests assume that the number of seeds was fixed in advance.",
    "anytime": "Because the number of seeds was not fixed in advance, tests and intervals are valid at any number of "
    "looks (Lindon et al. 2022).",
}  # by procedure name


def write_methods(comparison: Comparison) -> str:
    """Return the methods paragraph for a comparison; "" if nothing was tested."""
    tested = [verdict for verdict in comparison.answer if verdict.estimate is not None and verdict.p is not None]
    if not tested:
        return ""
    estimate = tested[0].estimate
    assert estimate is not None
    sentences = [
        f"{RATES[comparison.metric]} are {_describe_means(comparison)}.",
        "" if _is_alone(estimate) else _describe_procedure(comparison),
        f"Differences from the baseline have confidence intervals that treat {_sources(comparison, estimate)}.",
        "Differences are tested on the logarithm of the rates."
        if any(verdict.scale is RELATIVE for verdict in comparison.answer)
        else "",
        "If runs of a system failed, its mean is trimmed by 20 % at both ends (Yuen 1974)."
        if any(verdict.estimate is not None and verdict.estimate.trimmed for verdict in tested)
        else "",
        _describe_corrections(comparison, tested[0].family),
        _describe_margin(comparison),
        *dict.fromkeys(f"{start}." for arm in comparison.arms if (start := shared_start(arm))),
        _describe_corpus(comparison),
        f"Computed with asr-verdicts {VERSION}.",
    ]
    return " ".join(sentence for sentence in sentences if sentence) + "\n"


def _is_alone(estimate: Estimate) -> bool:
    """Return whether the estimate compares one trained model of each system."""
    return estimate.paired and estimate.models == 1


def _describe_means(comparison: Comparison) -> str:
    counts = sorted({len(arm.results) for arm in comparison.arms})
    if counts == [1]:
        return "of one training run per system"
    number = " to ".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    return f"means over {number} training seeds per system"


def _describe_procedure(comparison: Comparison) -> str:
    procedure = comparison.evidence.procedure
    if procedure.name in PROCEDURES:
        return PROCEDURES[procedure.name]
    plan = comparison.course.followed
    looks = ", ".join(map(str, plan.looks))
    return (
        f"Seeds were added at looks planned in advance (after {looks} seeds per system), with an alpha-spending "
        "function (Hwang, Shih & DeCani 1990) and repeated confidence intervals (Jennison & Turnbull 1984)."
    )


def _sources(comparison: Comparison, estimate: Estimate) -> str:
    units = units_text(comparison.answer[0])
    if estimate.paired and not estimate.speakers:
        folds = any((run.config.get("data") or {}).get("fold") is not None for run in comparison.runs)
        corrected = (
            "; their variance is corrected for overlapping training sets (Nadeau & Bengio 2003)" if folds else ""
        )
        return f"pairs of same-seed runs as random, each pair with its own test speakers{corrected}"
    if not estimate.speakers:
        return "seeds as random, but not the test set"
    unknown = ", because speakers are unknown" if estimate.unit in UNKNOWN else ""
    if _is_alone(estimate):
        return f"test {units} as random{unknown}; they do not cover other training runs"
    runs = "trained models, in pairs," if estimate.paired else "seeds"
    return (
        f"{runs} and test {units} as random{unknown}; their standard error combines both sources of variation, and "
        "degrees of freedom follow Satterthwaite (1946)"
    )


def _describe_corrections(comparison: Comparison, family: int) -> str:
    if family < 2:
        return ""
    percent = f"{100 * comparison.evidence.procedure.alpha:g} %"
    return (
        f"Over the {family} comparisons, p-values and intervals are adjusted by Holm's procedure (1979) at {percent}."
    )


def _describe_margin(comparison: Comparison) -> str:
    margins = {verdict.margin for verdict in comparison.answer if verdict.margin is not None}
    if not margins:
        return ""
    text = comparison.answer[0].scale.margin(margins.pop(), comparison.design.metric)
    return f"Systems count as equivalent within {text} by two one-sided tests (Schuirmann 1987)."


def _describe_corpus(comparison: Comparison) -> str:
    hashes = {run.data.hash("train") for run in comparison.runs}
    return "" if len(hashes) > 1 or None in hashes else "The training corpus was the same for all runs."
