"""A comparison as titled tables of text and lists of lines, which every format shows in its own way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from asr_ablations.comparison.result import ALPHA, Comparison, Contrast, TimeToAccuracy
from asr_ablations.comparison.time_to_accuracy import relative_time


@dataclass(frozen=True)
class Section:
    """A heading with a table, lines of text, or both."""

    heading: str
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def sections(comparison: Comparison) -> list[Section]:
    """All sections that are not empty, in the order of reading."""
    all_sections = [
        Section("Verdicts", lines=[verdict.sentence for verdict in comparison.verdicts]),
        _results(comparison),
        _training(comparison),
        _differences(comparison),
        Section("The literature", lines=comparison.literature),
        _times_to_accuracy(comparison),
        _equal_cost(comparison),
        _scaling(comparison),
        Section("Warnings", lines=comparison.warnings),
        Section("Not finished", lines=[f"{run.folder.name}: {run.reason}" for run in comparison.unfinished]),
    ]
    return [section for section in all_sections if section.rows or section.lines]


def _results(comparison: Comparison) -> Section:
    rows = [
        [
            row["arm"],
            row["set"],
            str(row["n"]),
            _spread(row["wer"], row["wer_sd"], 100, 2),
            _spread(row["cer"], row["cer_sd"], 100, 2),
            *(_number(count, 1) for count in (row["substitutions"], row["deletions"], row["insertions"])),
        ]
        for row in comparison.rows
    ]
    heading = "Error rates of the last weights, mean ± standard deviation over seeds"
    return Section(heading, ["arm", "set", "n", "WER %", "CER %", "S", "D", "I"], rows)


def _training(comparison: Comparison) -> Section:
    head = [
        "arm", "n", "parameters", "epochs", "steps", "audio h", "train s", "best validation WER %",
        "last validation WER %",
    ]  # fmt: skip
    rows = {
        row["arm"]: [
            row["arm"],
            str(row["n"]),
            _number(row["parameters"]),
            _number(row["epochs"], 1),
            _number(row["steps"], 1),
            _number(row["audio_hours"], 2),
            _spread(row["train_seconds"], row["train_seconds_sd"], 1, 1),
            _spread(row["best_validation_wer"], row["best_validation_wer_sd"], 100, 2),
            _spread(row["last_validation_wer"], row["last_validation_wer_sd"], 100, 2),
        ]
        for row in comparison.rows
    }
    return Section("Training", head, list(rows.values()))


def _differences(comparison: Comparison) -> Section:
    metric = comparison.metric.upper()
    head = [
        "arm", "set", f"{metric} difference", "over speakers (95 %)", "over both (95 %)", "matched pairs p", "Holm",
        "seeds p", "verdict p", "Holm", "pooled", "detectable",
    ]  # fmt: skip
    rows = [_difference(contrast) for contrast in comparison.contrasts]
    lines = [
        "Bootstrap over speakers (Bisani & Ney 2004); matched pairs sentence-segment test of NIST (MAPSSWE), Holm's "
        "correction over arms; Welch's test over seeds. The verdict's own p and interval hold the noise of seeds and "
        "of speakers, and are corrected over arms and sets. Detectable: the true difference that it would find in four "
        "cases of five. Pooled: the verdict's corrected p if the noise of seeds were the same in all arms, which few "
        "seeds cannot show; a sensitivity analysis that decides nothing.",
        *(line for contrast in comparison.contrasts if (line := _sensitivity(contrast))),
    ]
    return Section(f"Differences to {comparison.baseline}", head, rows, lines if rows else [])


def _difference(contrast: Contrast) -> list[str]:
    speakers, interval, detectable = contrast.speakers, contrast.interval, contrast.detectable
    return [
        contrast.arm,
        contrast.set,
        f"{100 * contrast.difference:+.2f}",
        "NA" if speakers is None else f"{100 * speakers.low:+.2f} to {100 * speakers.high:+.2f}",
        "NA" if interval is None else f"± {100 * interval.half_width:.2f}",
        *map(_p, (contrast.p_pairs, contrast.p_pairs_holm, contrast.p_seeds)),
        *map(_p, (contrast.p, contrast.p_holm, contrast.p_pooled)),
        "NA" if detectable is None else f"{100 * detectable:.2f}",
    ]


def _sensitivity(contrast: Contrast) -> str | None:
    """A note for readers where the assumption of equal noise would change the verdict."""
    p, pooled = contrast.p_holm, contrast.p_pooled
    if p is None or pooled is None or (p <= ALPHA) == (pooled <= ALPHA):
        return None
    shows, pooled_shows = ("shows", "would not") if p <= ALPHA else ("shows no", "would")
    return (
        f"{contrast.arm} on {contrast.set}: the verdict {shows} difference; with the noise of seeds pooled it "
        f"{pooled_shows} (p = {pooled:.3f}). More seeds would settle it."
    )


def _times_to_accuracy(comparison: Comparison) -> Section:
    """Means over the seeds of an arm, and their ratio to the baseline's mean; NA where a seed never got that far."""
    cost = any(time.cost is not None for time in comparison.times_to_accuracy)
    head = ["arm", "target %", "reached", "seconds", f"time / {comparison.baseline}", "steps", "audio h", "epochs"]
    groups: dict[tuple[str, float], list[TimeToAccuracy]] = {}
    for time in comparison.times_to_accuracy:
        groups.setdefault((time.arm, time.target), []).append(time)
    rows = []
    for (arm, target), times in groups.items():
        ratio = relative_time(comparison.times_to_accuracy, arm, comparison.baseline, target)
        rows.append([
            arm,
            f"{100 * target:.1f}",
            f"{sum(time.steps is not None for time in times)} of {len(times)}",
            _mean([time.seconds for time in times], 1),
            _number(ratio, 2),
            _mean([time.steps for time in times], 1),
            _mean([time.audio_hours for time in times], 3),
            _mean([time.epochs for time in times], 1),
            *([_mean([time.cost for time in times], 4)] if cost else []),
        ])  # fmt: skip
    heading = f"Until the median of three validations was at a {comparison.metric.upper()}"
    return Section(heading, [*head, *(["cost"] if cost else [])], rows)


def _equal_cost(comparison: Comparison) -> Section:
    metric = comparison.metric.upper()
    units = {"steps": "steps", "audio_hours": "hours of audio", "seconds": "seconds"}
    rows = [
        [f"{row['budget']:.6g} {units[row['axis']]}", row["arm"], _spread(row["mean"], row["deviation"], 100, 2)]
        for row in comparison.equal_cost
    ]
    return Section(f"Validation {metric} at equal cost", ["after", "arm", f"{metric} %"], rows)


def _scaling(comparison: Comparison) -> Section:
    rows = [
        [
            str(row["gpus"]),
            str(row["n"]),
            f"{3600 * row['audio_hours_per_second']:.0f}",
            f"{row['speed_up']:.2f}",
            f"{100 * row['efficiency']:.0f}",
        ]
        for row in comparison.scaling
    ]
    return Section("Scaling over GPUs", ["GPUs", "n", "s of audio per second", "speed-up", "efficiency %"], rows)


def _spread(mean: float | None, deviation: float | None, scale: float, places: int) -> str:
    if mean is None:
        return "NA"
    text = f"{scale * mean:.{places}f}"
    return text if deviation is None else f"{text} ± {scale * deviation:.{places}f}"


def _number(value: float | int | None, places: int = 0) -> str:
    return "NA" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.{places}f}"


def _mean(values: Sequence[float | None], places: int) -> str:
    """NA where a value is missing, too."""
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):,.{places}f}" if known and len(known) == len(values) else "NA"


def _p(p: float | None) -> str:
    return "NA" if p is None or math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
