"""Sections beside the main table of a comparison: contrasts, one arm over seeds, gradients, losses, search, times."""

import math
from collections.abc import Sequence

from asr_ablations.comparison.contrast import Verdict
from asr_ablations.comparison.derived_tables import (
    Description,
    LossAgainstWer,
    is_search,
    ranked,
)
from asr_ablations.comparison.metrics import WER, find_metric
from asr_ablations.comparison.result import Comparison, TimeToAccuracy
from asr_ablations.comparison.same_hour import WARNING, of_one_hour
from asr_ablations.comparison.time_to_accuracy import relative_time
from asr_ablations.comparison.training_times import Scaling
from asr_ablations.comparison.verdict import MOST_LOG
from asr_ablations.comparison.word_frequencies import BANDS
from asr_ablations.report.section import Section, mean, number, ratio_text, spread
from asr_ablations.tools.files import Json


def contrast_row(verdict: Verdict) -> Json:
    """A row per contrast, rates as fractions. low, high: the interval in points, or null; relative: the difference as a
    share of the baseline's rate; margin: on `scale`; superiority: P(a run of the arm is better than one of the
    baseline).
    """
    contrast, estimate = verdict.contrast, verdict.contrast.estimate
    seeds, speakers = (None, None) if estimate is None else (estimate.over_seeds, estimate.over_speakers)
    return {
        "arm": contrast.arm,
        "baseline": contrast.baseline,
        "kind": contrast.question.kind,
        "set": contrast.set,
        "metric": contrast.metric,
        "primary": contrast.primary,
        "baseline_mean": contrast.baseline_mean,
        "arm_mean": contrast.arm_mean,
        "difference": contrast.difference,
        "low": contrast.low,
        "high": contrast.high,
        "level": contrast.level,
        "relative": None if contrast.relative is None else math.expm1(contrast.relative.value),
        "relative_low": None if contrast.relative is None else _ratio(contrast.relative.low),
        "relative_high": None if contrast.relative is None else _ratio(contrast.relative.high),
        "scale": contrast.scale,
        "margin": contrast.margin,
        "grade": contrast.grade,
        "superiority": contrast.superiority,
        "outcome": contrast.outcome,
        "verdict": verdict.sentence,
        "procedure": contrast.procedure,
        "p": contrast.p,
        "p_adjusted": contrast.p_adjusted,
        "family": contrast.family,
        "seeds": contrast.seeds,
        "failed": contrast.failed,
        "diverged": contrast.diverged,
        "degrees": None if estimate is None else estimate.degrees,
        "standard_error": None if estimate is None else estimate.standard_error,
        "error_over_seeds": None if seeds is None else seeds.standard_error,
        "error_over_speakers": None if speakers is None else speakers.standard_error,
        "speakers": None if estimate is None else estimate.speakers,
        "effective_speakers": None if estimate is None else estimate.effective,
        "unit": None if estimate is None else estimate.unit,
        "paired": None if estimate is None else estimate.paired,
        "trimmed": None if estimate is None else estimate.trimmed,
        "detectable": None if contrast.detectable is None else contrast.detectable.value,
        "repeated": contrast.repeated,
        "p_pairs": contrast.p_pairs,
        "p_pairs_holm": contrast.p_pairs_holm,
    }


def _ratio(logarithm: float) -> float | None:
    return math.expm1(logarithm) if logarithm < MOST_LOG else None


def interval_text(verdict: Verdict) -> str:
    """The verdict's interval in the unit of its metric; NA without a finite one."""
    metric, contrast = find_metric(verdict.contrast.metric), verdict.contrast
    if contrast.low is None or contrast.high is None or math.isinf(contrast.low) or math.isinf(contrast.high):
        return "NA"
    ends = [metric.text(end, sign=True) for end in (contrast.low, contrast.high)]
    return f"{ends[0]} to {ends[1]}"


def description_section(comparison: Comparison) -> Section:
    """Mean, deviation with its interval, best and worst; empty where arms are compared."""
    rows = [_row(description) for description in comparison.one_arm]
    head = ["metric", "set", "n", "mean", "sd", "sd, 95 %", "best", "worst"]
    line = (
        "The last weights of runs that differ in the seed alone. Rates in percent, losses in nats. Nothing but chance "
        "differs between two such runs: a difference between single runs of other arms means little below twice the sd."
    )
    lost = [f"{len(arm.diverged)} of {len(arm.results)} runs diverged." for arm in comparison.arms if arm.diverged]
    return Section("One arm over seeds", head, rows, [line, *lost] if rows else [])


def _row(description: Description) -> list[str]:
    metric, spread = description.metric, description.spread
    deviation = spread.deviation
    return [
        metric.heading,
        description.set,
        str(spread.runs),
        metric.text(spread.mean),
        metric.text(None if deviation is None else deviation.value),
        "NA" if deviation is None else f"{metric.text(deviation.low)} to {metric.text(deviation.high)}",
        metric.text(spread.best),
        metric.text(spread.worst),
    ]


def noise_section(comparison: Comparison) -> Section:
    """The deviation that each source of chance gives alone, and its share of the variance of all together."""
    rows = [
        [
            row.arm,
            str(row.n),
            WER.text(row.deviation),
            "1" if row.share is None else f"{row.share.value:.2f} ({row.share.low:.2f} to {row.share.high:.2f})",
        ]
        for row in comparison.noise_sources
    ]
    line = (
        f"The last weights on {comparison.set}. Share: of the variance of {comparison.baseline}, with its 95 % "
        "interval. Shares need not add up to 1: sources act together."
    )
    head = ["arm", "n", f"sd, {WER.difference_unit}", "share (95 %)"]
    return Section("Sources of noise", head, rows, [line] if rows else [])


def frequency_section(comparison: Comparison) -> Section:
    """Words that are wrong by how often training has them, a row for each arm and set (Ambroszczyk2019 §2.2)."""
    rows = [
        [row.arm, row.set, *(_share(words, wrong) for words, wrong in zip(row.words, row.wrong, strict=True))]
        for row in comparison.word_frequencies
    ]
    line = "The share of the references' words that is wrong or missing, and of how many; a mean over the runs."
    head = ["arm", "set", *BANDS]
    return Section("Wrong words by how often training has them", head, rows, [line] if rows else [])


def _share(words: float, wrong: float) -> str:
    return f"{100 * wrong:.1f} % of {words:,.0f}" if words else "–"


def gradient_section(comparison: Comparison) -> Section:
    """A row for the first seed of each arm and for every run that diverged (Ambroszczyk2019 §2.6)."""
    rows = [
        [
            row.arm,
            str(row.seed),
            number(row.steps),
            *(f"{norm:.3g}" for norm in (row.median, row.high, row.largest)),
            number(row.largest_at),
            number(row.not_finite),
            "" if row.diverged_at is None else number(row.diverged_at),
        ]
        for row in comparison.gradients
    ]
    head = ["arm", "seed", "steps", "median", "95 %", "largest", "at step", "not finite", "diverged at step"]
    return Section("Norm of the gradient before clipping, first seed and diverged runs", head, rows)


def loss_section(comparison: Comparison) -> Section:
    """Spearman's rank correlation over all runs (Ambroszczyk2019 §2.1)."""
    rows = [_loss_row(measured) for measured in comparison.loss_against_wer]
    line = (
        "Over all runs of all arms. Near 1, validation loss ranks the runs as WER does; the interval treats runs as "
        "independent, although seeds of an arm are alike."
    )
    return Section("Validation loss against WER", ["of", "n", "rank correlation", "95 %"], rows, [line] if rows else [])


def _loss_row(measured: LossAgainstWer) -> list[str]:
    rho = measured.correlation
    value, interval = ("NA", "NA") if rho is None else (f"{rho.value:.2f}", f"{rho.low:.2f} to {rho.high:.2f}")
    return [measured.name, str(len(measured.points)), value, interval]


HEADING = "What the search tried"
NOTE = (
    "No verdicts: each choice has one run, and a search prefers what was lucky. Whether the best is better, runs with "
    "fresh seeds must say, in a sweep of their own."
)


def search_section(comparison: Comparison) -> Section:
    """The runs in the order of what the search minimised, with the values that it varied; empty unless a search
    proposed all of them.
    """
    if not is_search(comparison.arms):
        return Section(HEADING)
    tried = ranked(comparison.arms)
    keys = [key for key in comparison.factor if len({arm.levels.get(key) for arm, _ in tried}) > 1]
    metric, name = find_metric(comparison.metric), comparison.set
    head = [*keys, "validation", *([name] if name else []), "epochs"]
    shown = f" {name}: {metric.heading} of the last weights." if name else ""
    rows = [
        [
            *(_short(arm.levels.get(key, "")) for key in keys),
            "diverged" if run.diverged_at is not None else WER.text(run.summary.best_validation_wer),
            *([metric.text(run.value(name, metric.name))] if name else []),
            number(run.summary.epochs),
        ]
        for arm, run in tried
    ]
    return Section(
        HEADING, head, rows, [f"Validation: the best {WER.heading}, which the search minimises.{shown}", NOTE]
    )


def _short(value: str) -> str:
    """A number with four digits: a search draws it with sixteen."""
    try:
        return f"{float(value):.4g}"
    except ValueError:
        return value


CHOSEN = (
    "The targets were chosen from these curves: what every run reached, what half of them reached, and what only the "
    "best one did. They were not declared beforehand, so they describe, and confirm nothing."
)


def time_to_accuracy_section(comparison: Comparison) -> Section:
    """Means over the seeds of an arm, and their ratio to the baseline's mean; NA where a seed never got that far."""
    metric = find_metric(comparison.metric)
    cost = any(time.cost is not None for time in comparison.times_to_accuracy)
    timed = of_one_hour(comparison.arms)
    target_head = f"target, {metric.unit}"
    head = ["arm", target_head, "reached", "seconds", f"time / {comparison.baseline}", "steps", "audio h", "epochs"]
    groups: dict[tuple[str, float], list[TimeToAccuracy]] = {}
    for time in comparison.times_to_accuracy:
        groups.setdefault((time.arm, time.target), []).append(time)
    rows = []
    for (arm, target), times in groups.items():
        ratio = relative_time(comparison.times_to_accuracy, arm, comparison.baseline, target)
        rows.append([
            arm,
            f"{metric.scale * target:.3g}",
            f"{sum(time.steps is not None for time in times)} of {len(times)}",
            mean([time.seconds for time in times], 1),
            ratio_text(ratio) if timed else "–",
            mean([time.steps for time in times], 1),
            mean([time.audio_hours for time in times], 3),
            mean([time.epochs for time in times], 1),
            *([mean([time.cost for time in times], 4)] if cost else []),
        ])  # fmt: skip
    heading = f"Until the median of three validations was at a {metric.label}"
    lines = [CHOSEN] if any(time.chosen for time in comparison.times_to_accuracy) else []
    lines += [] if timed or not rows else [f"time /: {WARNING}."]
    return Section(heading, [*head, *(["cost"] if cost else [])], rows, lines)


def equal_cost_section(comparison: Comparison) -> Section:
    """The metric at validation, at the largest budget that every run has spent; of seconds if times can be compared."""
    metric = find_metric(comparison.metric)
    units = {"steps": (0, "steps"), "audio_hours": (2, "hours of audio"), "seconds": (0, "seconds")}
    timed = of_one_hour(comparison.arms)
    rows = []
    for row in comparison.equal_cost:
        if row["axis"] == "seconds" and not timed:
            continue
        places, unit = units[row["axis"]]
        rows.append([
            f"{row['budget']:,.{places}f} {unit}", row["arm"], metric.spread(row["mean"], row["deviation"])
        ])  # fmt: skip
    return Section(f"At equal cost, validation {metric.label}", ["after", "arm", metric.heading], rows)


def epochs_section(comparison: Comparison) -> Section:
    """Mean and deviations of an epoch's seconds, and their ratio to the baseline's (Ambroszczyk2019 §2.1, §2.5)."""
    rows = [
        [
            times.arm,
            str(times.runs),
            str(times.epochs),
            number(times.first, 1),
            number(times.mean, 1),
            number(times.over_epochs, 1),
            number(times.over_runs, 1),
            ratio_text(times.ratio),
        ]
        for times in comparison.epochs
    ]
    head = ["arm", "n", "epochs", "first s", "s per epoch", "sd over epochs", "sd over seeds"]
    line = (
        "Training batches alone, without validation and checkpoints. The first epoch fills caches and tunes kernels: "
        "it is in no mean and no deviation. In brackets: 95 % over seeds."
    )
    ratio = f"time / {comparison.baseline} (95 %)"
    return Section("Seconds per epoch", [*head, ratio], rows, [line] if rows else [])


def scaling_section(comparison: Comparison) -> Section:
    """Epochs and speed over the number of processes, as in Ambroszczyk2019 tables 2.1 and 2.2, and their price."""
    rows = comparison.scaling
    priced, named = any(row.price is not None for row in rows), any(row.series for row in rows)
    head = [
        *(["runs"] if named else []),
        *("GPUs" if all(row.device == "GPU" for row in rows) else "processes", "n", "batch of each"),
        *("minutes per epoch", "s of audio per second", "speed-up (95 %)", "efficiency %"),
        *(["price of an epoch"] if priced else []),
    ]
    cells = [
        [
            *([row.series] if named else []),
            str(row.processes),
            str(row.n),
            row.batch,
            spread(row.epoch_seconds / 60, None if row.deviation is None else row.deviation / 60, 2),
            "NA" if row.audio_hours_per_second is None else f"{3600 * row.audio_hours_per_second:,.0f}",
            ratio_text(row.speed_up),
            f"{100 * row.efficiency:.0f}",
            *([number(row.price, 4)] if priced else []),
        ]
        for row in rows
    ]
    return Section("Scaling over processes that train together", head, cells, _scaling_notes(rows))


def _scaling_notes(rows: Sequence[Scaling]) -> list[str]:
    if not rows:
        return []
    base = "Speed-up: over the fewest processes of otherwise equal runs; efficiency: its share of the possible."
    if len({(row.series, row.batch) for row in rows}) == len({row.series for row in rows}):
        return [f"{base} Each process keeps its batch, so the batch of an update grows with their number."]
    return [f"{base} The batch of each process differs: its effect on the time cannot be told from that of the number."]
