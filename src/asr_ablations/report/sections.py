"""A comparison as titled tables of text and lists of lines, which every format shows in its own way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from asr_ablations.comparison.result import ALPHA, Comparison, Difference, Reached
from asr_ablations.comparison.time_to_accuracy import relative_time


@dataclass(frozen=True)
class Section:
    """A heading with a table, lines of text, or both."""

    heading: str
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def sections(comparison: Comparison) -> list[Section]:
    """All that has something to say, in the order of reading."""
    made = [
        Section("Verdicts", lines=comparison.verdicts),
        _results(comparison),
        _training(comparison),
        _differences(comparison),
        Section("The literature", lines=comparison.literature),
        _accuracy_times(comparison),
        _equal(comparison),
        _scaling(comparison),
        Section("Warnings", lines=comparison.warnings),
        Section("Not finished", lines=[f"{folder.name}: {reason}" for folder, reason in comparison.unfinished]),
    ]
    return [section for section in made if section.rows or section.lines]


def _results(comparison: Comparison) -> Section:
    rows = [
        [
            str(row["arm"]), str(row["set"]), str(row["n"]),
            *(_spread(row[rate], row[f"{rate}_sd"], 100, 2) for rate in ("wer", "cer")),
            *(_number(row[kind], 1) for kind in ("substitutions", "deletions", "insertions")),
        ]
        for row in comparison.rows
    ]  # fmt: skip
    heading = "Error rates of the last weights, mean ± standard deviation over seeds"
    return Section(heading, ["arm", "set", "n", "WER %", "CER %", "S", "D", "I"], rows)


def _training(comparison: Comparison) -> Section:
    head = [
        "arm",
        "n",
        "parameters",
        "epochs",
        "steps",
        "audio h",
        "train s",
        "best validation WER %",
        "last validation WER %",
    ]
    rows = {}
    for row in comparison.rows:
        rows[row["arm"]] = [
            str(row["arm"]), str(row["n"]), _number(row["parameters"]), _number(row["epochs"], 1),
            _number(row["steps"], 1), _number(row["audio_hours"], 2),
            _spread(row["train_seconds"], row["train_seconds_sd"], 1, 1),
            _spread(row["best_validation_wer"], row["best_validation_wer_sd"], 100, 2),
            _spread(row["last_validation_wer"], row["last_validation_wer_sd"], 100, 2),
        ]  # fmt: skip
    return Section("Training", head, list(rows.values()))


def _differences(comparison: Comparison) -> Section:
    metric = comparison.metric.upper()
    head = [
        "arm", "set", f"{metric} difference", "over speakers (95 %)", "over both (95 %)", "matched pairs p", "Holm",
        "seeds p", "verdict p", "Holm", "pooled", "detectable",
    ]  # fmt: skip
    rows = [
        [
            one.arm, one.set, f"{100 * one.difference:+.2f}",
            "NA" if math.isnan(one.low) else f"{100 * one.low:+.2f} to {100 * one.high:+.2f}",
            "NA" if one.half_width is None else f"± {100 * one.half_width:.2f}",
            *(_p(p) for p in (one.p_pairs, one.p_pairs_holm, one.p_seeds, one.p, one.p_holm, one.p_pooled)),
            "NA" if one.detectable is None else f"{100 * one.detectable:.2f}",
        ]
        for one in comparison.differences
    ]  # fmt: skip
    lines = [
        "Bootstrap over speakers (Bisani & Ney 2004); matched pairs sentence-segment test of NIST (MAPSSWE), Holm's "
        "correction over arms; Welch's test over seeds. The verdict's own p and interval hold the noise of seeds and "
        "of speakers, and are corrected over arms and sets. Detectable: the true difference that it would find in four "
        "cases of five. Pooled: the verdict's corrected p if the noise of seeds were the same in all arms, which few "
        "seeds cannot show; a sensitivity analysis that decides nothing.",
        *(line for one in comparison.differences if (line := _sensitivity(one))),
    ]
    return Section(f"Differences to {comparison.baseline}", head, rows, lines if rows else [])


def _sensitivity(one: Difference) -> str | None:
    """What a reader should know where the assumption of equal noise would turn the verdict."""
    if one.p_holm is None or one.p_pooled is None or (one.p_holm <= ALPHA) == (one.p_pooled <= ALPHA):
        return None
    said, would = ("claims", "not be") if one.p_holm <= ALPHA else ("does not claim", "be")
    return (
        f"{one.arm} on {one.set}: the verdict {said} a difference; with the noise of seeds pooled it would {would} one "
        f"(p = {one.p_pooled:.3f}). More seeds would settle it."
    )


def _accuracy_times(comparison: Comparison) -> Section:
    """Means over the seeds of an arm, and the ratio of the baseline's mean time; NA where a seed did not get there."""
    cost = any(one.cost is not None for one in comparison.reached)
    relative = f"time / {comparison.baseline}"
    head = [
        "arm",
        "target %",
        "reached",
        "seconds",
        relative,
        "steps",
        "audio h",
        "epochs",
        *(["cost"] if cost else []),
    ]
    groups: dict[tuple[str, float], list[Reached]] = {}
    for one in comparison.reached:
        groups.setdefault((one.arm, one.target), []).append(one)
    rows = []
    for (arm, target), runs in groups.items():
        columns = [[run.seconds for run in runs], [run.steps for run in runs], [run.audio_hours for run in runs]]
        columns += [[run.epochs for run in runs], *([[run.cost for run in runs]] if cost else [])]
        got = sum(run.steps is not None for run in runs)
        told = [_mean(column, places) for column, places in zip(columns, (1, 1, 3, 1, 4), strict=False)]
        ratio = relative_time(comparison.reached, arm, comparison.baseline, target)
        told.insert(1, _number(ratio, 2))
        rows.append([arm, f"{100 * target:.1f}", f"{got} of {len(runs)}", *told])
    metric = comparison.metric.upper()
    return Section(f"Until the median of three validations was at a {metric}", head, rows)


def _equal(comparison: Comparison) -> Section:
    names = {"steps": "steps", "audio_hours": "hours of audio", "seconds": "seconds"}
    rows = [
        [f"{row['budget']:.6g} {names[row['axis']]}", row["arm"], _spread(row["mean"], row["deviation"], 100, 2)]
        for row in comparison.equal
    ]
    heading = f"Validation {comparison.metric.upper()} at equal cost"
    return Section(heading, ["after", "arm", f"{comparison.metric.upper()} %"], rows)


def _scaling(comparison: Comparison) -> Section:
    rows = [
        [str(row["gpus"]), str(row["n"]), f"{3600 * row['audio_hours_per_second']:.0f}", f"{row['speed_up']:.2f}",
         f"{100 * row['efficiency']:.0f}"]
        for row in comparison.scaling
    ]  # fmt: skip
    return Section("Scaling over GPUs", ["GPUs", "n", "s of audio a second", "speed-up", "efficiency %"], rows)


def _spread(mean: float | None, deviation: float | None, scale: float, places: int) -> str:
    if mean is None:
        return "NA"
    told = f"{scale * mean:.{places}f}"
    return told if deviation is None else f"{told} ± {scale * deviation:.{places}f}"


def _number(value: float | int | None, places: int = 0) -> str:
    return "NA" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.{places}f}"


def _mean(values: Sequence[float | None], places: int) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):,.{places}f}" if known and len(known) == len(values) else "NA"


def _p(p: float | None) -> str:
    return "NA" if p is None or math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
