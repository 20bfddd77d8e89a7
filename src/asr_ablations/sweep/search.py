"""A search: a sampler of Optuna's proposes runs, some at a time, and their results decide what it proposes next."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.core.utils import JobReturn

from asr_ablations.tools.checks import whole
from asr_ablations.tools.errors import require
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import write

if TYPE_CHECKING:
    import optuna

BEST = "best.yaml"
"""In the sweep's folder: the best run so far."""
Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
"""What runs overrides side by side; given with the number of the first of them."""


@dataclass(frozen=True)
class Space:
    """drawn: what is drawn from, by key as an override has it; fixed: the other overrides."""

    drawn: "dict[str, optuna.distributions.BaseDistribution]"
    fixed: list[str]


def imported() -> Any:
    """The module optuna, quiet. Raises UsageError where it is not installed."""
    require("search", "a search", "optuna")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other packages' next versions
        import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def sampler(kind: str, **options: Any) -> "optuna.samplers.BaseSampler":
    """Optuna's sampler of this name, with its options. Raises UsageError for a name or an option that it has not."""
    samplers = imported().samplers
    names = [name for name in samplers.__all__ if name.endswith("Sampler") and not name.startswith("Base")]
    if kind not in names:
        raise choices("hydra.sweeper.sampler.kind", kind, names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # options that Optuna calls experimental
            made: optuna.samplers.BaseSampler = getattr(samplers, kind)(**options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"hydra.sweeper.sampler: {kind}: {error}") from error
    return made


def space_of(overrides: Sequence[Override]) -> Space:
    """Raises UsageError for a space with nothing to draw, and for bounds that are none."""
    drawn, fixed = {}, []
    for override in overrides:
        if override.is_sweep_override():
            drawn[override.get_key_element()] = _distribution(override)
        else:
            fixed.append(override.input_line or "")
    if not drawn:
        raise UsageError("a search: nothing to draw; expected intervals or choices, as lr=interval(1e-4,1e-2)")
    return Space(drawn, fixed)


def _distribution(override: Override) -> "optuna.distributions.BaseDistribution":
    distributions, value = imported().distributions, override.value()
    logarithmic = "log" in getattr(value, "tags", ())
    try:
        if isinstance(value, IntervalSweep):
            whole = isinstance(value.start, int) and isinstance(value.end, int)
            kind = distributions.IntDistribution if whole else distributions.FloatDistribution
            return kind(value.start, value.end, log=logarithmic)
        if isinstance(value, RangeSweep) and not value.shuffle and not logarithmic:
            numbers = list(value.range())
            whole = all(isinstance(number, int) for number in numbers)
            kind = distributions.IntDistribution if whole else distributions.FloatDistribution
            return kind(numbers[0], numbers[-1], step=value.step)
        return distributions.CategoricalDistribution(list(override.sweep_string_iterator()))
    except (ValueError, IndexError) as error:
        raise UsageError(f"{override.input_line}: expected bounds in order, and above 0 for log ({error})") from error


def search(
    space: Space, draw: "optuna.samplers.BaseSampler", launch: Launch, *, trials: int, at_once: int, maximise: bool
) -> list[Any]:
    """The numbered trials with their results. The same seed proposes the same runs, so the same command continues.

    Raise what a run without a result raised: the next proposals depend on it.
    """
    whole("hydra.sweeper.n_trials", trials, 1)
    whole("hydra.sweeper.n_jobs", at_once, 1)
    study = imported().create_study(sampler=draw, direction="maximize" if maximise else "minimize")
    while len(study.trials) < trials:
        drawn = [study.ask(space.drawn) for _ in range(min(at_once, trials - len(study.trials)))]
        words = [[*space.fixed, *(f"{key}={_text(value)}" for key, value in trial.params.items())] for trial in drawn]
        results = launch(words, drawn[0].number)
        for trial, result in zip(drawn, results, strict=True):
            value = float(result.return_value)
            if math.isnan(value):
                raise UsageError("a search: its runs have no figure to minimise; expected trainings")
            study.tell(trial, value)
        _keep_best(study, results, trials)
    return list(study.trials)


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _keep_best(study: "optuna.Study", results: Sequence[JobReturn], trials: int) -> None:
    """Write the best so far into the sweep's folder, and say it."""
    best, done = study.best_trial, len(study.trials)
    chosen = " ".join(f"{key}={_text(value)}" for key, value in best.params.items())
    print(
        f"run {done} of {trials} of the search; best so far: run {best.number + 1}, {best.value:.4f}, {chosen}",
        flush=True,
    )
    params = {key: yaml.safe_load(_text(value)) for key, value in best.params.items()}
    content = {"trials": done, "best_trial": best.number + 1, "best_value": best.value, "best_params": params}
    if results[0].cfg is not None:
        folder = Path(str(results[0].cfg["outputs"])) / str(results[0].cfg["sweep"])
        write(folder / BEST, yaml.safe_dump(content, sort_keys=False))
