"""Tuning of a decoder's weights by the WER on a validation set, with stored log-probabilities."""

import itertools
import warnings
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.tri import Triangulation
from omegaconf import DictConfig
from rich.progress import Progress

from asr_ablations.config.build import read_content
from asr_ablations.data.datamodule import SpeechData
from asr_ablations.evaluation.log_probs import LogProbs
from asr_ablations.evaluation.pool import Pool
from asr_ablations.evaluation.record import set_rows
from asr_ablations.evaluation.request import decoder_name
from asr_ablations.runs.layout import TUNING
from asr_ablations.tools.content_keys import content_key
from asr_ablations.training.contracts import Decoder
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json, write_csv, write_json
from asr_verdicts.plotting import LOOK, grid, save, wrapped
from asr_verdicts.record import rates

Trial = dict[str, float]  # a trial's number, its values by the decoder's keys, and its WER and CER as fractions


def draw(trials: Sequence[Trial], keys: Sequence[str], name: str, folder: Path, file: str, best: Trial) -> None:
    """Draw a panel for each pair of weights, coloured by WER in percent, with the chosen values marked.

    name: of the set. file: the figure's name without ending.
    """
    pairs = list(itertools.combinations(keys, 2)) or [(keys[0], keys[0])]
    with matplotlib.rc_context(LOOK):
        figure, axes = grid(len(pairs))
        for panel, (x, y) in zip(axes, pairs, strict=True):
            _draw_panel(panel, trials, x, y, best)
            panel.set_title(wrapped(panel, f"WER % on {name}: {100 * best['wer']:.2f} at the star"), loc="left")
        save(figure, folder, file)


def _draw_panel(panel: Axes, trials: Sequence[Trial], x: str, y: str, best: Trial) -> None:
    xs, ys = ([trial[key] for trial in trials] for key in (x, y))
    percent = [100 * trial["wer"] for trial in trials]
    vectors = [(a - xs[0], b - ys[0]) for a, b in zip(xs, ys, strict=True)]
    if any(abs(a * d - b * c) > 1e-9 for (a, b), (c, d) in itertools.combinations(vectors, 2)):  # not collinear
        panel.tricontourf(Triangulation(xs, ys), percent, levels=12, cmap="viridis_r", alpha=0.7)
    points = panel.scatter(xs, ys, c=percent, cmap="viridis_r", edgecolors="#222222", linewidths=0.5, s=22)
    panel.plot(best[x], best[y], marker="*", color="#d55e00", markeredgecolor="white", markersize=14)
    panel.set(xlabel=x, ylabel=y)
    panel.figure.colorbar(points, ax=panel)


def find_tuning_set(cfg: DictConfig, decoder: Decoder, data: SpeechData) -> str:
    """Return the set to tune on. Raises UsageError for test sets (by name or content) and decoders without weights."""
    corpus = data.corpus
    if not getattr(decoder, "tuned", ()):
        raise UsageError(f"tune.trials={cfg.tune.trials}: this decoder has no weights, unlike beam_lm and beam_charlm")
    name = str(cfg.tune.set or corpus.validation[0])
    if name not in corpus.validation:
        raise choices("tune.set", name, corpus.validation)
    spoken = set(corpus.read(name).strings("content"))
    for test in corpus.test:
        if spoken.intersection(corpus.read(test).strings("content")):
            raise UsageError(f"tune.set={name}: refused, because it shares utterances with the test set {test}")
    return name


def tune(
    cfg: DictConfig, number: int, decoder: Decoder, pool: Pool, log_probs: LogProbs, folder: Path, bar: Progress
) -> Json:
    """Try `tune.trials` values and write the trials to the run's folder. The first trial has the config's values, and
    Optuna's TPE sampler draws the others. The lowest WER wins, then the lower CER, then the earlier trial.

    number: of the decoder in the pool. folder: of the run.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SQLAlchemy warns about its next version
        import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=cfg.tune.seed))
    spaces = {key: list(cfg.tune[key]) for key in getattr(decoder, "tuned", ()) if cfg.tune[key] is not None}
    distributions: dict[str, optuna.distributions.BaseDistribution] = {
        key: optuna.distributions.FloatDistribution(*space) for key, space in spaces.items()
    }
    trials: list[Trial] = []
    task = bar.add_task(f"tuning on {log_probs.name}", total=cfg.tune.trials)
    for place in range(cfg.tune.trials):
        trial = study.ask(distributions) if place else None
        values = trial.params if trial else {key: getattr(decoder, key) for key in spaces}
        result = rates(set_rows(log_probs, pool.decode(number, log_probs, values).texts))
        if trial:
            study.tell(trial, result.wer)
        trials.append({"trial": place, **values, "wer": result.wer, "cer": result.cer or 0.0})
        bar.advance(task)
    bar.remove_task(task)
    best = min(trials, key=lambda trial: (trial["wer"], trial["cer"]))  # of equal ones the earlier
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
    draw(trials, list(spaces), log_probs.name, target, name, best)
    write_json(target / f"{name}.json", summary)
    return {**summary, "file": f"{TUNING}/{name}.json"}
