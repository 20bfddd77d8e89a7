"""What an answer is about: corpus, size of the model, training, test set, rate reached, code and day."""

from collections.abc import Callable, Sequence

import numpy as np

from asr_ablations.report.training_columns import training_loss
from asr_verdicts.arms import choice_of
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import LOSS, find_metric
from asr_verdicts.record import Record
from asr_verdicts.verdict import Verdict

BUILT_IN = "synthetic"
"""The option of the built-in corpus, whose speech is generated."""
UNHEARD_SINCE = "2026-11-27"
"""The day of version 5 of the built-in corpus, the first whose test voices are variants that no training voice has."""
HEAD = ("about", "rates", "training loss", "of")
EXPLANATION = (
    "About: corpus, hours of training speech, parameters, epochs; words of the test set, and the units that it was "
    "drawn with, over which intervals are. Generated speech is the built-in corpus. Rates: those of the first and the "
    "second; training loss: in their last epoch, in nats, over all their seeds. Of: the code's commit and the day of "
    "the runs."
)


def cells(contrast: Verdict, comparison: Comparison) -> list[str]:
    """The cells of a row, as HEAD names them."""
    runs = _runs(contrast, comparison)
    return [
        f"{training(runs)}; {tested(contrast, runs)}",
        "–" if contrast.question.kind == "interaction" else _rates(contrast),
        _training_losses(contrast, comparison),
        f"{', '.join(_different(runs, commit))}, {days(runs)}",
    ]


def _rates(contrast: Verdict) -> str:
    metric = find_metric(contrast.metric)
    return f"{metric.text(contrast.rate)}, {metric.text(contrast.baseline_rate)}"


def _training_losses(contrast: Verdict, comparison: Comparison) -> str:
    if contrast.question.kind == "interaction":
        return "–"
    sides: tuple[list[float], list[float]] = ([], [])
    for arm in comparison.arms:
        if weight := contrast.question.weights.get(arm.name):
            sides[weight < 0].extend(loss for run in arm.runs if (loss := training_loss(run)) is not None)
    return ", ".join(LOSS.text(float(np.mean(losses))) for losses in sides if losses) or "–"


def summary(comparisons: Sequence[Comparison]) -> str:
    """A sentence about all runs of all comparisons."""
    runs = list({run.folder.resolve(): run for one in comparisons for run in one.runs}.values())
    parts = [training([run for run in runs if corpus(run) == name]) for name in _different(runs, corpus)]
    return f"{len(runs)} runs, {days(runs)}: {'; '.join(parts)}. Commits: {', '.join(_different(runs, commit))}."


def _runs(contrast: Verdict, comparison: Comparison) -> list[Record]:
    return [run for arm in comparison.arms if arm.name in contrast.question.weights for run in arm.runs]


def training(runs: Sequence[Record]) -> str:
    """Corpus, hours, parameters and epochs of runs; a range where they differ, and nothing where none is recorded."""
    hours = _numbers(runs, lambda run: run.summary.train_hours, 2)
    parameters = _numbers(runs, lambda run: _millions(run.summary.parameters), 2)
    epochs = _numbers(runs, lambda run: run.summary.epochs, 0)
    known = [f"{number} {unit}" for number, unit in ((hours, "h"), (parameters, "M"), (epochs, "epochs")) if number]
    return ", ".join([" and ".join(_different(runs, corpus)), *known])


def _millions(count: float | None) -> float | None:
    return None if count is None else count / 1e6


def tested(contrast: Verdict, runs: Sequence[Record]) -> str:
    """Words and units of the test set."""
    words = _numbers(runs, lambda run: run.value(contrast.set, "words"), 0)
    estimate = contrast.estimate
    units = f", {estimate.speakers} {estimate.unit}" if estimate is not None and estimate.speakers else ""
    return f"{contrast.set}{f', {words} words' if words else ''}{units}"


def corpus(run: Record) -> str:
    """The corpus of a run, with its language."""
    name = choice_of(run, "data")
    return f"generated {run.config['data']['language']}" if name == BUILT_IN else name


def is_earlier(contrast: Verdict, comparison: Comparison) -> bool:
    """True if a run of the answer is of the built-in corpus before its version 5."""
    runs = [run for run in _runs(contrast, comparison) if choice_of(run, "data") == BUILT_IN]
    return any((run.environment.started or "") < UNHEARD_SINCE for run in runs)


def commit(run: Record) -> str:
    return (run.environment.code.commit or "unknown")[:8]


def days(runs: Sequence[Record]) -> str:
    """The first and the last day on which runs began, YYYY-MM-DD in UTC."""
    known = sorted({run.environment.started[:10] for run in runs if run.environment.started})
    return " to ".join(dict.fromkeys([known[0], known[-1]])) if known else "unknown day"


def _different(runs: Sequence[Record], read: Callable[[Record], str]) -> list[str]:
    return sorted({read(run) for run in runs})


def _numbers(runs: Sequence[Record], read: Callable[[Record], float | None], places: int) -> str:
    values = sorted({round(value, places) for run in runs if (value := read(run)) is not None})
    texts = [f"{value:,.{places}f}" for value in values]
    texts = [text.rstrip("0").rstrip(".") if places else text for text in texts]
    return " to ".join(dict.fromkeys([texts[0], texts[-1]])) if texts else ""
