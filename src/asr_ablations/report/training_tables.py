"""Sections of a comparison about training: noise, gradients, losses, search, time to accuracy, epochs, scaling."""

from collections.abc import Sequence

from asr_ablations.comparison.arm_differences import differences_of_arms
from asr_ablations.comparison.derived_tables import LossAgainstWer, gradients, loss_against_wer, noise_sources, ranked
from asr_ablations.comparison.same_hour import WARNING, of_one_hour
from asr_ablations.comparison.time_to_accuracy import at_equal_cost, relative_time, times_to_accuracy
from asr_ablations.comparison.training_times import Scaling, epoch_times, scaling
from asr_ablations.comparison.validation_costs import TimeToAccuracy, ratio_text
from asr_ablations.comparison.word_frequencies import BANDS, word_frequencies
from asr_ablations.report.training_columns import TRAIN_SECONDS, TRAINING_COLUMNS
from asr_verdicts.arms import is_search
from asr_verdicts.comparison import Comparison
from asr_verdicts.metrics import WER, find_metric
from asr_verdicts.report.section import Section, mean, number, spread
from asr_verdicts.report.sections import cell_text, shown_columns
from asr_verdicts.table_columns import rate_rows


def noise_section(comparison: Comparison) -> Section:
    """The deviation that each source of chance gives alone, and its share of the variance of all together."""
    rows = [
        [
            row.arm,
            str(row.n),
            WER.text(row.deviation),
            "1" if row.share is None else f"{row.share.value:.2f} ({row.share.low:.2f} to {row.share.high:.2f})",
        ]
        for row in noise_sources(comparison)
    ]
    line = (
        f"The last weights on {comparison.set}. Share: of the variance of {comparison.baseline}, with its 95 % "
        "interval. Shares need not add up to 1: sources act together."
    )
    head = ["arm", "n", f"sd, {WER.amount}", "share (95 %)"]
    return Section("Sources of noise", head, rows, [line] if rows else [])


def frequency_section(comparison: Comparison) -> Section:
    """Words that are wrong by how often training has them, a row for each arm and set (Ambroszczyk2019 §2.2)."""
    rows = [
        [row.arm, row.set, *(_share(words, wrong) for words, wrong in zip(row.words, row.wrong, strict=True))]
        for row in word_frequencies(comparison.arms, comparison.sets)
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
        for row in gradients(comparison.arms)
    ]
    head = ["arm", "seed", "steps", "median", "95 %", "largest", "at step", "not finite", "diverged at step"]
    return Section("Norm of the gradient before clipping, first seed and diverged runs", head, rows)


def loss_section(comparison: Comparison) -> Section:
    """Spearman's rank correlation over all runs (Ambroszczyk2019 §2.1)."""
    rows = [_loss_row(measured) for measured in loss_against_wer(comparison.arms, comparison.sets)]
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
    keys = [key for key in comparison.design.layout.factor if len({arm.levels.get(key) for arm, _ in tried}) > 1]
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
    metric, reached = comparison.design.metric, times_to_accuracy(comparison)
    cost = any(time.cost is not None for time in reached)
    timed = of_one_hour(comparison.arms)
    target_head = f"target, {metric.unit}"
    head = ["arm", target_head, "reached", "seconds", f"time / {comparison.baseline}", "steps", "audio h", "epochs"]
    groups: dict[tuple[str, float], list[TimeToAccuracy]] = {}
    for time in reached:
        groups.setdefault((time.arm, time.target), []).append(time)
    rows = []
    for (arm, target), times in groups.items():
        ratio = relative_time(reached, arm, comparison.baseline, target)
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
    lines = [CHOSEN] if any(time.chosen for time in reached) else []
    lines += [] if timed or not rows else [f"time /: {WARNING}."]
    return Section(heading, [*head, *(["cost"] if cost else [])], rows, lines)


def equal_cost_section(comparison: Comparison) -> Section:
    """The metric at validation, at the largest budget that every run has spent; of seconds if times can be compared."""
    metric = find_metric(comparison.metric)
    units = {"steps": (0, "steps"), "audio_hours": (2, "hours of audio"), "seconds": (0, "seconds")}
    timed = of_one_hour(comparison.arms)
    rows = []
    for row in at_equal_cost(comparison.arms, metric):
        if row["axis"] == "seconds" and not timed:
            continue
        places, unit = units[row["axis"]]
        rows.append([
            f"{row['budget']:,.{places}f} {unit}", row["arm"], metric.spread(row["mean"], row["deviation"])
        ])  # fmt: skip
    return Section(f"At equal cost, validation {metric.label}", ["after", "arm", metric.heading], rows)


def keys_section(comparison: Comparison) -> Section:
    """The keys in which each arm differs from the baseline."""
    differences = differences_of_arms(comparison.design, comparison.arms)
    return Section("Keys that differ", lines=[difference.text for difference in differences])


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
        for times in epoch_times(comparison.arms, comparison.baseline)
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
    rows = scaling(comparison.arms)
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


def training_section(comparison: Comparison) -> Section:
    """Parameters, epochs, times and validations of each arm."""
    measured = rate_rows(comparison, TRAINING_COLUMNS)
    if not any(row[column.key] is not None for row in measured for column in TRAINING_COLUMNS):
        return Section("Training")  # of systems that were trained elsewhere nothing is known
    columns = shown_columns(TRAINING_COLUMNS, measured)
    timed = of_one_hour(comparison.arms)
    rows = {
        row["arm"]: [
            str(row["arm"]),
            str(row["n"]),
            *(cell_text(row, column) if timed or column.key != TRAIN_SECONDS else "–" for column in columns),
        ]
        for row in measured
    }
    head = ["arm", "n", *(column.heading for column in columns)]
    return Section("Training", head, list(rows.values()), [] if timed or not rows else [f"train s: {WARNING}."])
