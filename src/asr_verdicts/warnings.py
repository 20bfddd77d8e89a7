"""Collect the warnings that a comparison shows to the user."""

import hashlib
from collections.abc import Callable, Mapping, Sequence

from asr_verdicts.arms import Arm, shared_start
from asr_verdicts.confounds import Differing, value_text
from asr_verdicts.design import Design
from asr_verdicts.evidence import Evidence
from asr_verdicts.identical_arms import alike_warnings
from asr_verdicts.record import Environment, Record
from asr_verdicts.statistics.seed_noise import pooled_deviation


def warnings_about(design: Design, arms: Sequence[Arm], evidence: Evidence) -> list[str]:
    """Return all warnings about a comparison, in the order of display. arms: the arms that have results."""
    return [
        *design.chosen,
        *_allowed_warnings(design.layout.overruled),
        *design.layout.warnings,
        *_test_set_warnings(design),
        *_validation_warnings(design),
        *_training_warnings(design),
        *alike_warnings(arms, design.questions),
        *(start for arm in arms if (start := shared_start(arm))),
        *_luck_warnings(evidence, arms, design),
        *_baseline_warnings(evidence, design.baseline),
        *circumstance_warnings(arms),
    ]


def circumstance_warnings(arms: Sequence[Arm]) -> list[str]:
    """Return warnings about code, versions or hardware that differ between runs, or within a run that was resumed."""
    warnings = []
    for name, read, meaning in _CIRCUMSTANCES:
        runs_by_value: dict[str, dict[str, list[str]]] = {}  # seeds by arm
        for arm in arms:
            for run in arm.runs:
                value = ", then ".join(dict.fromkeys(map(read, run.environment.sessions)))
                runs_by_value.setdefault(value, {}).setdefault(arm.name, []).append(str(run.seed))
        if len(runs_by_value) > 1 or any(", then " in value for value in runs_by_value):
            values = "; ".join(f"{value}: {_name_runs(seeds, len(arms))}" for value, seeds in runs_by_value.items())
            warnings.append(f"the runs differ in {name}, {meaning} ({values})")
    return warnings


def _name_runs(seeds_by_arm: Mapping[str, Sequence[str]], arms: int) -> str:
    first, *others = seeds_by_arm.values()
    if others and len(seeds_by_arm) == arms and all(seeds == first for seeds in others):
        return f"seed{'s' * (len(first) > 1)} {', '.join(first)} of every arm"
    return ", ".join(f"{arm}/{seed}" for arm, seeds in seeds_by_arm.items() for seed in seeds)


def _code(environment: Environment) -> str:
    code = environment.code
    diff = code.dirty_diff
    changes = f" with changes {hashlib.sha256(diff.encode(errors='surrogateescape')).hexdigest()[:6]}" if diff else ""
    return f"{(code.commit or 'unknown')[:8]}{changes}"


def _versions(environment: Environment) -> str:
    versions = environment.versions
    return f"torch {versions.get('torch', 'unknown')}, Python {versions.get('python', 'unknown')}"


def _hardware(environment: Environment) -> str:
    hardware = environment.hardware
    if gpus := hardware.gpus:
        return f"{len(gpus)} × {gpus[0]}"
    return f"{hardware.processor or 'unknown'}, {hardware.cores or '?'} cores"


def _native(environment: Environment) -> str:
    return environment.hardware.native or "none"


_CIRCUMSTANCES: tuple[tuple[str, Callable[[Environment], str], str], ...] = (
    ("code", _code, "which may change results"),
    ("versions", _versions, "which may change results"),
    ("hardware", _hardware, "so their times cannot be compared"),
    ("native library", _native, "which changes rounding and, between none and any other, products with precision=bf16"),
)  # name of a circumstance, function that reads it from an environment, and consequence of a difference


def _allowed_warnings(beyond: Differing) -> list[str]:
    warning = "the arms also differ in {} ({}), as --allow permits: its effect cannot be told from the factor's"
    return [warning.format(key, ", ".join(map(value_text, values))) for key, values in beyond.items()]


def _test_set_warnings(design: Design) -> list[str]:
    if design.primary or len(design.layout.arms) < 2:
        return []
    return ["no test set has results, so there are no verdicts: the validation sets steered training"]


def _validation_warnings(design: Design) -> list[str]:
    """Return a warning for each test set that is also a validation set of a run, by name or content."""
    return [
        f"{name} is also a validation set: it steers training, so rates on it are not a test"
        for name in design.sets
        if any(_steers(run, name) for arm in design.layout.arms for run in arm.results if name in run.summary.test_sets)
    ]


def _steers(run: Record, name: str) -> bool:
    content = run.data.hash(name)
    return name in run.validation_sets or (content is not None and content in map(run.data.hash, run.validation_sets))


def _training_warnings(design: Design) -> list[str]:
    """Return a warning for each test set with speakers who are also in the training set of a run."""
    runs = [run for arm in design.layout.arms for run in arm.results]
    trained = dict.fromkeys(run.data.trained_on(name) for name in design.sets for run in runs)
    return [f"{text}: intervals are for these speakers, not for new ones" for text in trained if text]


LIBRISPEECH = "On LibriSpeech's test-clean, seeds move the WER by 0.06 to 0.17 points (AlgoPerf's logs)"


def seed_noise_text(evidence: Evidence, arms: Sequence[Arm], design: Design) -> str:
    """Return a sentence on the variation between seeds in earlier sweeps if an arm has only one seed, else "".

    If there is no earlier sweep on LibriSpeech, published logs are used. Their numbers do not apply to small corpora,
    where seeds change the WER twenty to fifty times as much.
    """
    metric = design.metric
    if not metric.is_rate or min(len(arm.results) for arm in arms) > 1:
        return ""
    like = next(run for arm in arms for run in arm.runs)
    noise = evidence.history.seed_noise(like, design.primary, metric.name)
    if noise is not None:
        moved = f"{metric.text(noise.deviation)} {metric.amount} (standard deviation"
        return (
            f"Seeds move the {metric.label} by {moved} in {noise.runs} earlier runs of {noise.arms} arms on this set)"
        )
    data = str((like.config.get("data") or {}).get("_target_"))
    if design.primary == "test-clean" and data.endswith(".LibriSpeech"):
        return LIBRISPEECH
    return "No earlier sweep on this test set shows how much results vary between seeds"


# warn only if there are at most FEW seeds, and their deviation is at most 1 / QUIET of that in earlier sweeps
FEW, QUIET = 5, 2.0


def _luck_warnings(evidence: Evidence, arms: Sequence[Arm], design: Design) -> list[str]:
    """Return a warning if the results of a few seeds vary far less than in earlier sweeps on the same data.

    Earlier sweeps do not change the verdict. Using them as a prior for the variance would save 13 to 25 % of the runs,
    but would multiply false claims by 1.4 to 7 if an arm is unlike earlier arms, as is common in ablations
    (docs/statistics.md).
    """
    metric = design.metric
    rates = [[rate for run in arm.runs if (rate := run.value(design.primary, metric.name)) is not None] for arm in arms]
    several = [of_arm for of_arm in rates if len(of_arm) > 1]
    like = next((run for arm in arms for run in arm.runs), None)
    if not several or like is None or not metric.is_rate or max(map(len, several)) > FEW:
        return []
    noise = evidence.history.seed_noise(like, design.primary, metric.name)
    deviation = pooled_deviation(several, 0.0)
    if noise is None or deviation * QUIET > noise.deviation:
        return []
    return [
        f"seeds move the {metric.label} by {metric.text(deviation)} {metric.amount} here (standard deviation), and by "
        f"{metric.text(noise.deviation)} in {noise.runs} earlier runs of {noise.arms} arms: few seeds may agree by luck"
    ]


def _baseline_warnings(evidence: Evidence, baseline: Arm) -> list[str]:
    """Return a warning if other sweeps share runs of the baseline, because a lucky baseline misleads all of them."""
    sharing = evidence.history.sweeps_with(baseline.results)
    if not sharing:
        return []
    named = ", ".join(sharing[:3]) + (f" and {len(sharing) - 3} more" if len(sharing) > 3 else "")
    return [
        f"runs of the baseline {baseline.name} are shared with {len(sharing)} other sweep{'s' * (len(sharing) > 1)} "
        f"({named}): a lucky baseline is lucky in each, so their errors are correlated"
    ]
