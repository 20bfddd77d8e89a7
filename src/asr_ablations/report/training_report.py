"""Build the report on trained runs: its tables, and the contents of comparison.json and timing.json."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial

from asr_ablations.comparison.arm_differences import differences_of_arms
from asr_ablations.comparison.data_scale import ScalePoint, crossings, data_scale
from asr_ablations.comparison.derived_tables import (
    BANDS,
    gradients,
    loss_against_wer,
    lowest_validation,
    noise_sources,
    ranked,
    word_frequencies,
)
from asr_ablations.comparison.time_to_accuracy import (
    TimeToAccuracy,
    at_equal_cost,
    ratio_text,
    relative_time,
    times_to_accuracy,
    validation_values,
)
from asr_ablations.comparison.training_times import WARNING, EpochTimes, Scaling, epoch_times, ran_together, scaling
from asr_verdicts.arms import is_search
from asr_verdicts.comparison import Comparison
from asr_verdicts.files import Json
from asr_verdicts.metrics import LOSS, WER, Metric, find_metric
from asr_verdicts.record import Record
from asr_verdicts.report.document import Report, report_verdicts, verdict_content
from asr_verdicts.report.looks import spent_by
from asr_verdicts.report.section import Section, mean, number, spread, tabulate
from asr_verdicts.report.sections import (
    cell_text,
    closing_sections,
    evidence_section,
    opening_sections,
    rate_sections,
    shown_columns,
)
from asr_verdicts.table_columns import RATE_COLUMNS, Column, TableRow, rate_rows, validation_rows

TRAINING_LOSS = "train/loss_epoch"
"""Column of metrics.csv with the mean loss over an epoch's batches, in nats."""
TRAIN_SECONDS = "train_seconds"
TIMES = (TRAIN_SECONDS, f"{TRAIN_SECONDS}_sd")
"""Columns with times, which depend on the machine and its load."""
SPENT_TIMES = ("hours", "untimed", "hours_saved", "hours_taken_over")


def training_loss(run: Record) -> float | None:
    """Return the mean training loss of the last epoch in nats, or None if it was not recorded."""
    return _take_last([value for row in run.metrics if (value := row.get(TRAINING_LOSS)) is not None])


def _take_last(values: Sequence[float]) -> float | None:
    return values[-1] if values else None


def _mean_column(key: str, heading: str, metric: Metric, read: Callable[[Record], float | None]) -> Column:
    heading = f"{heading} {metric.heading}"
    return Column(key, lambda run, _: read(run), heading, metric=metric, deviation=True, always=metric is WER)


TRAINING_COLUMNS = (
    Column("parameters", lambda run, _: run.summary.parameters, "parameters"),
    Column("epochs", lambda run, _: run.summary.epochs, "epochs", 1),
    Column("steps", lambda run, _: run.summary.steps, "steps", 1),
    Column("audio_hours", lambda run, _: run.summary.audio_hours_seen, "audio h", 2),
    Column(TRAIN_SECONDS, lambda run, _: run.summary.seconds.get("train"), "train s", 1, deviation=True),
    _mean_column("training_loss", "training", LOSS, training_loss),
    _mean_column("best_validation_wer", "best validation", WER, lambda run: run.summary.best_validation_wer),
    _mean_column("last_validation_wer", "last validation", WER, lambda run: _take_last(validation_values(run, WER))),
    _mean_column("best_validation_loss", "best validation", LOSS, lambda run: lowest_validation(run, LOSS)),
    _mean_column("last_validation_loss", "last validation", LOSS, lambda run: _take_last(validation_values(run, LOSS))),
)
"""Columns about training, in the order in which files list them. Losses are shown only if a run recorded them."""


def noise_section(comparison: Comparison) -> Section:
    """Show the noise that each random stream causes alone, and its share of the variance of all streams together."""
    return tabulate(
        "Sources of noise",
        noise_sources(comparison),
        {
            "arm": lambda row: row.arm,
            "n": lambda row: str(row.n),
            f"sd, {WER.amount}": lambda row: WER.text(row.deviation),
            "share (95 %)": lambda row: "1" if row.share is None else ratio_text(row.share),
        },
        [
            f"WER of the last weights on {comparison.set}. Shares are parts of the variance of {comparison.baseline}, "
            "with 95 % intervals. They need not add up to 1, because the sources interact."
        ],
    )


def data_scale_section(comparison: Comparison) -> Section:
    """Show the error rate against hours of training speech, with slopes and crossings."""
    rows, metric = data_scale(comparison), comparison.design.metric
    lines = [
        "per doubling: change for each doubling of the hours since the row above, from means over runs, without an "
        "interval. The verdicts judge the differences.",
        *(
            f"On {name} the curves of {first} and {second} cross at about {hours:.3g} hours."
            for name, first, second, hours in crossings(rows)
        ),
    ]
    columns: dict[str, Callable[[ScalePoint], str]] = {
        "set": lambda row: row.set,
        "arms": lambda row: row.series,
        "hours": lambda row: f"{row.hours:.3g}",
        "n": lambda row: str(row.n),
        metric.heading: lambda row: metric.spread(row.mean, row.deviation),
        "per doubling": lambda row: "" if row.doubling is None else metric.text(row.doubling, sign=True),
    }
    return tabulate(f"{metric.label} against hours of training speech", rows, columns, lines)


def search_section(comparison: Comparison) -> Section:
    """Rank the runs of a search by the metric that it minimised. Show nothing unless a search chose all runs."""
    tried = ranked(comparison.arms) if is_search(comparison.arms) else []
    keys = [key for key in comparison.design.layout.factor if len({arm.levels.get(key) for arm, _ in tried}) > 1]
    metric, name = find_metric(comparison.metric), comparison.set
    rows = [
        [
            *(_round(arm.levels.get(key, "")) for key in keys),
            "diverged" if run.diverged_at is not None else WER.text(run.summary.best_validation_wer),
            *([metric.text(run.value(name, metric.name))] if name else []),
            number(run.summary.epochs),
        ]
        for arm, run in tried
    ]
    note = f" The column {name} has the {metric.heading} of the last weights." if name else ""
    lines = [
        f"The column validation has each run's best validation {WER.heading}, which the search minimises.{note}",
        "There are no verdicts, because each choice has one run and a search prefers lucky runs. To find out whether "
        "the best choice is better, train it with fresh seeds in a separate sweep.",
    ]
    head = list(dict.fromkeys([*keys, "validation", *([name] if name else []), "epochs"]))
    return Section("Runs of the search", head, rows, lines if rows else [])


def _round(value: str) -> str:
    """Round a number to four significant digits, because a search samples sixteen. Return other text as is."""
    try:
        return f"{float(value):.4g}"
    except ValueError:
        return value


def training_section(comparison: Comparison) -> Section:
    """Show parameters, epochs, times and validation results of each arm, or nothing for systems trained elsewhere."""
    measured = [*{row["arm"]: row for row in rate_rows(comparison, TRAINING_COLUMNS)}.values()]
    if not any(row[column.key] is not None for row in measured for column in TRAINING_COLUMNS):
        return Section("Training")
    columns, timed = shown_columns(TRAINING_COLUMNS, measured), ran_together(comparison.arms)
    cells: dict[str, Callable[[TableRow], str]] = {"arm": lambda row: str(row["arm"]), "n": lambda row: str(row["n"])}
    for column in columns:
        is_comparable = timed or column.key != TRAIN_SECONDS
        cells[column.heading] = partial(cell_text, column=column) if is_comparable else lambda _: "–"
    return tabulate("Training", measured, cells, [] if timed else [f"train s: {WARNING}."])


def frequency_section(comparison: Comparison) -> Section:
    """Show the share of wrong words by the word's frequency in the training set (Ambroszczyk2019 §2.2)."""
    rows = [
        [
            row.arm,
            row.set,
            *(
                f"{100 * wrong:.1f} % of {words:,.0f}" if words else "–"
                for wrong, words in zip(row.wrong, row.words, strict=True)
            ),
        ]
        for row in word_frequencies(comparison.arms, comparison.sets)
    ]
    note = "Share of the reference words that are wrong or missing, and number of reference words; means over runs."
    heading = "Wrong words by their frequency in training"
    return Section(heading, ["arm", "set", *BANDS], rows, [note] if rows else [])


def loss_section(comparison: Comparison) -> Section:
    """Show the rank correlation (Spearman) between validation loss and WER over all runs (Ambroszczyk2019 §2.1)."""
    return tabulate(
        "Validation loss against WER",
        [(each, each.correlation) for each in loss_against_wer(comparison.arms, comparison.sets)],
        {
            "set": lambda row: row[0].name,
            "n": lambda row: str(len(row[0].points)),
            "rank correlation": lambda row: "NA" if row[1] is None else f"{row[1].value:.2f}",
            "95 %": lambda row: "NA" if row[1] is None else f"{row[1].low:.2f} to {row[1].high:.2f}",
        },
        [
            "The correlation is over all runs of all arms. Near 1, the validation loss ranks the runs like the WER. "
            "The interval treats runs as independent, although seeds of one arm are similar."
        ],
    )


def gradient_section(comparison: Comparison) -> Section:
    """Show gradient norms of each arm's first seed and of all diverged runs (Ambroszczyk2019 §2.6)."""
    return tabulate(
        "Norm of the gradient before clipping, first seed and diverged runs",
        gradients(comparison.arms),
        {
            "arm": lambda row: row.arm,
            "seed": lambda row: str(row.seed),
            "steps": lambda row: number(row.steps),
            "median": lambda row: f"{row.median:.3g}",
            "95 %": lambda row: f"{row.high:.3g}",
            "largest": lambda row: f"{row.largest:.3g}",
            "at step": lambda row: number(row.largest_at),
            "not finite": lambda row: number(row.not_finite),
            "diverged at step": lambda row: "" if row.diverged_at is None else number(row.diverged_at),
        },
    )


def time_to_accuracy_section(comparison: Comparison) -> Section:
    """Show the cost of reaching each target: the mean over seeds, or NA if a seed did not reach the target."""
    metric, reached = comparison.design.metric, times_to_accuracy(comparison)
    timed = ran_together(comparison.arms)
    pairs = dict.fromkeys((time.arm, time.target) for time in reached)
    groups = [[time for time in reached if (time.arm, time.target) == pair] for pair in pairs]

    def compare(times: list[TimeToAccuracy]) -> str:
        ratio = relative_time(reached, times[0].arm, comparison.baseline, times[0].target)
        return ratio_text(ratio) if timed else "–"

    columns: dict[str, Callable[[list[TimeToAccuracy]], str]] = {
        "arm": lambda times: times[0].arm,
        f"target, {metric.unit}": lambda times: f"{metric.scale * times[0].target:.3g}",
        "reached": lambda times: f"{sum(time.steps is not None for time in times)} of {len(times)}",
        "seconds": lambda times: mean([time.seconds for time in times], 1),
        f"time / {comparison.baseline}": compare,
        "steps": lambda times: mean([time.steps for time in times], 1),
        "audio h": lambda times: mean([time.audio_hours for time in times], 3),
        "epochs": lambda times: mean([time.epochs for time in times], 1),
    }
    if any(time.cost is not None for time in reached):
        columns["cost"] = lambda times: mean([time.cost for time in times], 4)
    chosen = (
        "The targets were chosen from these curves: every run reached the first, half of the runs reached the second, "
        "only the best run reached the last. They were not declared in advance, so they describe but do not confirm."
    )
    notes = [chosen] if any(time.chosen for time in reached) else []
    notes += [] if timed else [f"time /: {WARNING}."]
    return tabulate(f"Until the median of three validations was at a {metric.label}", groups, columns, notes)


UNITS = {"steps": (0, "steps"), "audio_hours": (2, "hours of audio"), "seconds": (0, "seconds")}
"""Decimals and unit of each kind of training budget."""


def equal_cost_section(comparison: Comparison) -> Section:
    """Show the validation metric at the largest budget that every run spent (in seconds if times are comparable)."""
    metric, timed = find_metric(comparison.metric), ran_together(comparison.arms)
    return tabulate(
        f"At equal cost, validation {metric.label}",
        [row for row in at_equal_cost(comparison.arms, metric) if timed or row["axis"] != "seconds"],
        {
            "after": lambda row: f"{row['budget']:,.{UNITS[row['axis']][0]}f} {UNITS[row['axis']][1]}",
            "arm": lambda row: row["arm"],
            metric.heading: lambda row: metric.spread(row["mean"], row["deviation"]),
        },
    )


def epochs_section(comparison: Comparison) -> Section:
    """Show seconds per epoch: mean, standard deviations, and ratio to the baseline (Ambroszczyk2019 §2.1, §2.5)."""
    columns: dict[str, Callable[[EpochTimes], str]] = {
        "arm": lambda times: times.arm,
        "n": lambda times: str(times.runs),
        "epochs": lambda times: str(times.epochs),
        "first s": lambda times: number(times.first, 1),
        "s per epoch": lambda times: number(times.mean, 1),
        "sd over epochs": lambda times: number(times.over_epochs, 1),
        "sd over seeds": lambda times: number(times.over_runs, 1),
        f"time / {comparison.baseline} (95 %)": lambda times: ratio_text(times.ratio),
    }
    note = (
        "The times cover training batches only, without validation and checkpoints. The first epoch fills caches and "
        "tunes kernels, so means and deviations exclude it. Brackets contain 95 % intervals over seeds."
    )
    return tabulate("Seconds per epoch", epoch_times(comparison.arms, comparison.baseline), columns, [note])


def scaling_section(comparison: Comparison) -> Section:
    """Show time, speed-up and price of an epoch by number of processes, as in Ambroszczyk2019 tables 2.1 and 2.2."""
    rows = scaling(comparison.arms)
    processes = "GPUs" if all(row.device == "GPU" for row in rows) else "processes"
    columns: dict[str, Callable[[Scaling], str]] = {
        "runs": lambda row: row.series,
        processes: lambda row: str(row.processes),
        "n": lambda row: str(row.n),
        "batch of each": lambda row: row.batch,
        "minutes per epoch": lambda row: spread(row.epoch_seconds / 60, row.deviation and row.deviation / 60, 2),
        "s of audio per second": lambda row: number(row.audio_hours_per_second and 3600 * row.audio_hours_per_second),
        "speed-up (95 %)": lambda row: ratio_text(row.speed_up),
        "efficiency %": lambda row: f"{100 * row.efficiency:.0f}",
        "price of an epoch": lambda row: number(row.price, 4),
    }
    if not any(row.series for row in rows):
        del columns["runs"]
    if all(row.price is None for row in rows):
        del columns["price of an epoch"]
    note = "The speed-up is relative to the equal runs with the fewest processes. Efficiency is its share of the ideal."
    if len({(row.series, row.batch) for row in rows}) == len({row.series for row in rows}):
        note += " Each process keeps its batch size, so the batch of an update grows with the number of processes."
    else:
        note += " The batch of a process varies, so the times do not show the effect of the number of processes alone."
    return tabulate("Scaling over processes that train together", rows, columns, [note])


def report_comparison(comparison: Comparison) -> Report:
    """Return the report of a comparison. For systems given as hypotheses, the report contains only verdicts."""
    if comparison.scored:
        return report_verdicts(comparison)
    noise, ranking = noise_section(comparison), search_section(comparison)
    rows = rate_rows(comparison, [*RATE_COLUMNS, *TRAINING_COLUMNS])
    content, timing = _build_contents(comparison, rows)
    answer = [noise] if noise.rows else []
    return Report(comparison, sections(comparison), rows, content, timing, answer, ranking if ranking.rows else None)


def sections(comparison: Comparison) -> list[Section]:
    """Return the sections of the report in reading order. Empty sections are omitted."""
    differences = differences_of_arms(comparison.design, comparison.arms)
    every = [
        *opening_sections(comparison),
        Section("Keys that differ", lines=[difference.text for difference in differences]),
        noise_section(comparison),
        search_section(comparison),
        *rate_sections(comparison),
        data_scale_section(comparison),
        training_section(comparison),
        evidence_section(comparison),
        frequency_section(comparison),
        loss_section(comparison),
        gradient_section(comparison),
        time_to_accuracy_section(comparison),
        equal_cost_section(comparison),
        epochs_section(comparison),
        scaling_section(comparison),
        *closing_sections(comparison),
    ]
    return [section for section in every if section.rows or section.lines]


def _build_contents(comparison: Comparison, rows: Sequence[TableRow]) -> tuple[Json, Json]:
    """Return the contents of comparison.json and of timing.json.

    timing.json contains all times and all values derived from times, such as costs and rates at equal seconds.
    """
    spent = spent_by(comparison)
    reached = [asdict(time) for time in times_to_accuracy(comparison)]
    equal = at_equal_cost(comparison.arms, comparison.design.metric)
    validated = validation_rows(comparison, [*RATE_COLUMNS, *TRAINING_COLUMNS])
    content = {
        **verdict_content(comparison),
        "rows": [_without(TIMES, row) for row in rows],
        "validated": [_without(TIMES, row) for row in validated],
        "reached": [_without(("seconds", "cost"), time) for time in reached],
        "equal": [row for row in equal if row["axis"] != "seconds"],
        "noise_sources": [asdict(row) for row in noise_sources(comparison)],
        "data_scale": [asdict(row) for row in data_scale(comparison)],
        "loss_against_wer": [asdict(each) for each in loss_against_wer(comparison.arms, comparison.sets)],
        "gradient_norm": [asdict(row) for row in gradients(comparison.arms)],
        "spent": None if spent is None else _without((*SPENT_TIMES, "plan"), vars(spent)),
    }
    timing = {
        "arms": [{key: row[key] for key in ("arm", *TIMES)} for row in {row["arm"]: row for row in rows}.values()],
        "reached": [_without(("steps", "audio_hours", "epochs"), time) for time in reached],
        "equal": [row for row in equal if row["axis"] == "seconds"],
        "epochs": [asdict(times) for times in epoch_times(comparison.arms, comparison.baseline)],
        "scaling": [asdict(row) for row in scaling(comparison.arms)],
        "spent": None if spent is None else {key: getattr(spent, key) for key in SPENT_TIMES},
    }
    return content, timing


def _without(keys: Sequence[str], row: Mapping[str, object]) -> Json:
    return {key: value for key, value in row.items() if key not in keys}
