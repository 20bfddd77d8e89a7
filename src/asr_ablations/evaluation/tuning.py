"""Weights of a decoder by the WER of a validation set, over log-probabilities that are computed once."""

import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.progress import Progress

from asr_ablations.data.datamodule import SpeechData
from asr_ablations.evaluation.log_probs import Stored
from asr_ablations.evaluation.pool import Pool
from asr_ablations.evaluation.record import set_rows
from asr_ablations.evaluation.tuning_figure import draw
from asr_ablations.experiment.utterances import rates
from asr_ablations.runs.layout import TUNING
from asr_ablations.tools.errors import UsageError, choices
from asr_ablations.tools.extras import require
from asr_ablations.tools.files import write_csv, write_json

Row = dict[str, Any]


@dataclass(frozen=True)
class Tuning:
    """chosen: values by key of the decoder; told: what a record says of it."""

    chosen: dict[str, float]
    told: dict[str, Any]


def tuning_set(cfg: DictConfig, decoder: Any, data: SpeechData) -> str:
    """The set to tune on. Raises UsageError for a test set, by name or content, and for a decoder without weights."""
    corpus = data.corpus
    if not getattr(decoder, "tuned", ()):
        raise UsageError(f"tune.trials={cfg.tune.trials}: this decoder has no weights; beam_lm and beam_charlm have")
    name = str(cfg.tune.set or corpus.validation[0])
    if name in corpus.test:
        raise UsageError(f"tune.set={name}: refused, that is a test set; expected {', '.join(corpus.validation)}")
    if name not in corpus.validation:
        raise choices("tune.set", name, corpus.validation)
    spoken = {u.audio.resolve() for u in corpus.read(name)}
    for test in corpus.test:
        if spoken & {u.audio.resolve() for u in corpus.read(test)}:
            raise UsageError(f"tune.set={name}: refused, it shares utterances with the test set {test}")
    return name


def tune(cfg: DictConfig, number: int, decoder: Any, pool: Pool, stored: Stored, folder: Path, bar: Progress) -> Tuning:
    """The best of so many trials: the first is what the config says, the rest are drawn by Optuna's TPE sampler. Of
    equal word error rates the lower character error rate wins, and of those the earlier.
    """
    spaces = {key: cfg.tune[key] for key in decoder.tuned if cfg.tune[key] is not None}
    trials: list[Row] = []
    task = bar.add_task(f"tuning on {stored.name}", total=cfg.tune.trials)
    for values, tell in _suggest(spaces, {key: getattr(decoder, key) for key in spaces}, cfg.tune):
        found = rates(set_rows(stored, pool.decode(number, stored, values).texts))
        tell(found["wer"])
        trials.append({"trial": len(trials), **values, "wer": found["wer"], "cer": found["cer"]})
        bar.advance(task)
    bar.remove_task(task)
    best = min(trials, key=lambda row: (row["wer"], row["cer"]))
    return _write(cfg, decoder, stored, folder, spaces, trials, best)


def _suggest(spaces: dict[str, Any], first: dict[str, float], asked: DictConfig) -> Any:
    """(values, a function that takes their WER) for each trial."""
    require("search", "tune.trials", "optuna")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy's, of its next version
        import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=asked.seed))
    distributions: dict[str, Any] = {
        key: optuna.distributions.UniformDistribution(*space) for key, space in spaces.items()
    }
    yield first, lambda wer: None
    for _ in range(asked.trials - 1):
        trial = study.ask(distributions)
        yield dict(trial.params), lambda wer, trial=trial: study.tell(trial, wer)


def _write(
    cfg: DictConfig, decoder: Any, stored: Stored, folder: Path, spaces: dict[str, Any], trials: list[Row], best: Row
) -> Tuning:
    """tuning/<name>.json, .csv, .png and .svg in the run's folder."""
    chosen = {key: float(best[key]) for key in spaces}
    told = {
        "set": stored.name,
        "trials": len(trials),
        "seed": cfg.tune.seed,
        "spaces": {key: list(space) for key, space in spaces.items()},
        "chosen": chosen,
        "wer": best["wer"],
        "wer_untuned": trials[0]["wer"],
        "models": {key: str(file) for key, file in decoder.files.items()},
    }
    mark = hashlib.sha256(json.dumps([told, stored.file.name], sort_keys=True).encode()).hexdigest()[:8]
    name = f"{str(cfg.decoder._target_).split('.')[-2]}-{mark}"
    target = folder / TUNING
    target.mkdir(exist_ok=True)
    write_csv(target / f"{name}.csv", trials)
    draw(trials, list(spaces), stored.name, target, name)
    write_json(target / f"{name}.json", told)
    return Tuning(chosen, {**told, "file": f"{TUNING}/{name}.json"})
