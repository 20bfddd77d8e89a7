"""Tune a decoder's weights for the lowest WER on a validation set, using stored log-probabilities."""

import warnings
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig
from rich.progress import Progress

from asr_ablations.config.build import read_content
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.evaluation.outputs import LogProbs
from asr_ablations.evaluation.pool import Pool
from asr_ablations.evaluation.request import decoder_name
from asr_ablations.evaluation.sets import HeardSet
from asr_ablations.runs.layout import TUNING
from asr_ablations.tools.content_keys import content_key
from asr_ablations.training.contracts import Decoder
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json, write_csv, write_json
from asr_verdicts.record import rates


def find_tuning_set(cfg: DictConfig, decoder: Decoder, data: SpeechData, sets: Mapping[str, HeardSet]) -> str:
    """Return the name of the validation set to tune on.

    Raise UsageError if the decoder has no weights to tune, or if `tune.set` is not a validation set or shares
    utterances with a test set, either the run's own or one in `sets`.
    """
    corpus = data.corpus
    if not getattr(decoder, "tuned", ()):
        others = "unlike beam_lm, beam_charlm and beam_rescored"
        raise UsageError(f"tune.trials={cfg.tune.trials}: this decoder has no weights to tune, {others}")
    name = str(cfg.tune.set or corpus.validation[0])
    if name not in corpus.validation:
        raise choices("tune.set", name, corpus.validation)
    spoken = set(corpus.read(name).strings("content"))
    tests = {test: corpus.read(test) for test in corpus.test}
    tests |= {heard.recorded: heard.data.corpus.read(heard.split) for heard in sets.values() if heard.is_test}
    for test, utterances in tests.items():
        if spoken.intersection(utterances.strings("content")):
            raise UsageError(f"tune.set={name}: refused, because it shares utterances with the test set {test}")
    return name


def tune(
    cfg: DictConfig, number: int, decoder: Decoder, pool: Pool, log_probs: LogProbs, folder: Path, bar: Progress
) -> Json:
    """Try `tune.trials` combinations of weights. Write them to the run folder, and return a summary with the best one.

    The first trial uses the weights in the config. Optuna's TPE sampler chooses those of the other trials. The lowest
    WER wins. If WERs are equal, the lower CER wins, and then the earlier trial.

    number: position of the decoder in the pool. folder: the run folder.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hides SQLAlchemy's warning about its next version
        import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=cfg.tune.seed))
    spaces = {key: list(cfg.tune[key]) for key in getattr(decoder, "tuned", ()) if cfg.tune[key] is not None}
    distributions: dict[str, optuna.distributions.BaseDistribution] = {
        key: optuna.distributions.FloatDistribution(*space) for key, space in spaces.items()
    }
    trials: list[dict[str, float]] = []
    task = bar.add_task(f"tuning on {log_probs.name}", total=cfg.tune.trials)
    for place in range(cfg.tune.trials):
        trial = study.ask(distributions) if place else None
        values = trial.params if trial else {key: getattr(decoder, key) for key in spaces}
        result = rates(log_probs.rows_with(pool.decode(number, log_probs, values).texts))
        if trial:
            study.tell(trial, result.wer)
        trials.append({"trial": place, **values, "wer": result.wer, "cer": result.cer or 0.0})
        bar.advance(task)
    bar.remove_task(task)
    best = min(trials, key=lambda trial: (trial["wer"], trial["cer"]))  # of equal trials, min returns the first
    summary: Json = {
        "set": log_probs.name,
        "trials": len(trials),
        "seed": cfg.tune.seed,
        "spaces": spaces,
        "chosen": {key: float(best[key]) for key in spaces},
        "wer": best["wer"],
        "wer_untuned": trials[0]["wer"],
        "models": {key: str(file) for key, file in getattr(decoder, "files", {}).items()},
    }
    key = content_key(8, summary=summary, decoder=read_content(cfg.decoder), log_probs=log_probs.file.name)
    name = f"{decoder_name(cfg)}-{key}"
    target = folder / TUNING
    target.mkdir(exist_ok=True)
    write_csv(target / f"{name}.csv", trials)
    write_json(target / f"{name}.json", summary)
    return {**summary, "file": f"{TUNING}/{name}.json"}
