"""Search with Optuna: a sampler proposes a few runs at a time, and their results guide the next proposals."""

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
"""File in the sweep folder that describes the best run so far."""
Launch = Callable[[Sequence[Sequence[str]], int], Sequence[JobReturn]]
"""Function that runs one arm for each list of overrides, in parallel. The second argument is the first run's number."""


class Space(NamedTuple):
    """A search space. drawn: distribution of each sampled key. fixed: overrides of keys that are not sampled."""

    drawn: "dict[str, optuna.distributions.BaseDistribution]"
    fixed: list[str]


def import_optuna() -> Any:
    """Import optuna without its warnings and log messages. Raise UsageError if it is not installed."""
    require("search", "a search", "optuna")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about future versions of other packages
        import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def build_sampler(kind: str, **options: Any) -> "optuna.samplers.BaseSampler":
    """Build the Optuna sampler of class `kind`. Raise UsageError for an unknown class or option."""
    samplers = import_optuna().samplers
    names = [name for name in samplers.__all__ if name.endswith("Sampler") and not name.startswith("Base")]
    if kind not in names:
        raise choices("hydra.sweeper.sampler.kind", kind, names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about options that Optuna calls experimental
            made: optuna.samplers.BaseSampler = getattr(samplers, kind)(**options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"hydra.sweeper.sampler: {kind}: {error}") from error
    return made


def build_space(overrides: Sequence[Override]) -> Space:
    """Build a search space from overrides. Raise UsageError if no override varies or if bounds are wrong."""
    drawn, fixed = {}, []
    for override in overrides:
        if override.is_sweep_override():
            drawn[override.get_key_element()] = _distribution(override)
        else:
            fixed.append(override.input_line or "")
    if not drawn:
        raise UsageError("a search: nothing to draw; expected intervals or choices, such as lr=interval(1e-4,1e-2)")
    return Space(drawn, fixed)


def _distribution(override: Override) -> "optuna.distributions.BaseDistribution":
    distributions, value = import_optuna().distributions, override.value()
    logarithmic = "log" in getattr(value, "tags", ())
    ends: list[Any]
    options: dict[str, Any]
    try:
        if isinstance(value, IntervalSweep):
            ends, options = [value.start, value.end], {"log": logarithmic}
        elif isinstance(value, RangeSweep) and not value.shuffle and not logarithmic:
            values = list(value.range())
            ends, options = [values[0], values[-1]], {"step": value.step}
        else:
            return distributions.CategoricalDistribution(list(override.sweep_string_iterator()))
        is_whole = all(isinstance(number, int) for number in ends)
        return (distributions.IntDistribution if is_whole else distributions.FloatDistribution)(*ends, **options)
    except (ValueError, IndexError) as error:
        raise UsageError(f"{override.input_line}: expected bounds in order, and above 0 for log ({error})") from error


def search(
    space: Space, draw: "optuna.samplers.BaseSampler", launch: Launch, *, trials: int, at_once: int, maximise: bool
) -> list[Any]:
    """Run a search and return its trials. The same seed leads to the same runs, so the same command continues a search.

    draw: the sampler. at_once: number of runs proposed together. A run that fails ends the search, because the next
    proposals depend on its result.
    """
    whole("hydra.sweeper.n_trials", trials, 1)
    whole("hydra.sweeper.n_jobs", at_once, 1)
    study = import_optuna().create_study(sampler=draw, direction="maximize" if maximise else "minimize")
    while len(study.trials) < trials:
        drawn = [study.ask(space.drawn) for _ in range(min(at_once, trials - len(study.trials)))]
        words = [[*space.fixed, *(f"{key}={_text(value)}" for key, value in trial.params.items())] for trial in drawn]
        results = launch(words, drawn[0].number)
        for trial, result in zip(drawn, results, strict=True):
            value = float(result.return_value)
            if math.isnan(value):
                raise UsageError("a search: its runs have no WER to minimise; expected runs that train a model")
            study.tell(trial, value)
        _keep_best(study, results, trials)
    return list(study.trials)


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _keep_best(study: "optuna.Study", results: Sequence[JobReturn], trials: int) -> None:
    """Print the best run so far, and write it to BEST in the sweep folder."""
    best, done = study.best_trial, len(study.trials)
    chosen = {key: _text(value) for key, value in best.params.items()}
    overrides = " ".join(f"{key}={text}" for key, text in chosen.items())
    line = f"run {done} of {trials} of the search; best so far: run {best.number + 1}, {best.value:.4f}, {overrides}"
    print(line, flush=True)
    params = {key: yaml.safe_load(text) for key, text in chosen.items()}
    content = {"trials": done, "best_trial": best.number + 1, "best_value": best.value, "best_params": params}
    if (cfg := results[0].cfg) is not None:
        write(Path(str(cfg["outputs"])) / str(cfg["sweep"]) / BEST, yaml.safe_dump(content, sort_keys=False))
