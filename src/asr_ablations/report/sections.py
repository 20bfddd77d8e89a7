"""A comparison as sections, in the order of reading."""

import math

from asr_ablations.comparison.metrics import CER, LOSS, WER, find_metric
from asr_ablations.comparison.result import ALPHA, Comparison, Contrast
from asr_ablations.report.description import description_section
from asr_ablations.report.losses import loss_section
from asr_ablations.report.section import Section, number, spread
from asr_ablations.report.times import epochs_section, equal_cost_section, scaling_section, time_to_accuracy_section


def sections(comparison: Comparison) -> list[Section]:
    """All sections that are not empty, in the order of reading."""
    all_sections = [
        Section("Verdicts", lines=[verdict.sentence for verdict in comparison.verdicts]),
        description_section(comparison),
        _results(comparison),
        _training(comparison),
        _differences(comparison),
        loss_section(comparison),
        Section("The literature", lines=comparison.literature),
        time_to_accuracy_section(comparison),
        equal_cost_section(comparison),
        epochs_section(comparison),
        scaling_section(comparison),
        Section("Warnings", lines=comparison.warnings),
        Section("Not finished", lines=[f"{run.folder.name}: {run.reason}" for run in comparison.unfinished]),
    ]
    return [section for section in all_sections if section.rows or section.lines]


def _results(comparison: Comparison) -> Section:
    losses = any(row["loss"] is not None for row in comparison.rows)
    rows = [
        [
            row["arm"],
            row["set"],
            str(row["n"]),
            WER.spread(row["wer"], row["wer_sd"]),
            CER.spread(row["cer"], row["cer_sd"]),
            *([LOSS.spread(row["loss"], row["loss_sd"])] if losses else []),
            *(number(count, 1) for count in (row["substitutions"], row["deletions"], row["insertions"])),
        ]
        for row in comparison.rows
    ]
    heading = "Error rates of the last weights, mean ± standard deviation over seeds"
    loss = [LOSS.heading] if losses else []
    return Section(heading, ["arm", "set", "n", WER.heading, CER.heading, *loss, "S", "D", "I"], rows)


def _training(comparison: Comparison) -> Section:
    losses = any(row["last_validation_loss"] is not None for row in comparison.rows)
    validated = [WER.heading, *([LOSS.heading] if losses else [])]
    head = [
        *("arm", "n", "parameters", "epochs", "steps", "audio h", "train s"),
        *(f"{which} validation {heading}" for heading in validated for which in ("best", "last")),
    ]
    rows = {
        row["arm"]: [
            row["arm"],
            str(row["n"]),
            number(row["parameters"]),
            number(row["epochs"], 1),
            number(row["steps"], 1),
            number(row["audio_hours"], 2),
            spread(row["train_seconds"], row["train_seconds_sd"], 1),
            WER.spread(row["best_validation_wer"], row["best_validation_wer_sd"]),
            WER.spread(row["last_validation_wer"], row["last_validation_wer_sd"]),
            *([LOSS.spread(row["best_validation_loss"], row["best_validation_loss_sd"])] if losses else []),
            *([LOSS.spread(row["last_validation_loss"], row["last_validation_loss_sd"])] if losses else []),
        ]
        for row in comparison.rows
    }
    return Section("Training", head, list(rows.values()))


def _differences(comparison: Comparison) -> Section:
    metric = find_metric(comparison.metric)
    head = [
        "arm", "set", f"{metric.label} difference", "over speakers (95 %)", "over both (95 %)",
        "matched pairs p", "Holm", "seeds p", "verdict p", "Holm", "pooled", "detectable",
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
    metric = find_metric(contrast.metric)
    speakers, interval, detectable = contrast.speakers, contrast.interval, contrast.detectable
    return [
        contrast.arm,
        contrast.set,
        metric.text(contrast.difference, sign=True),
        "NA"
        if speakers is None
        else f"{metric.text(speakers.low, sign=True)} to {metric.text(speakers.high, sign=True)}",
        "NA" if interval is None else f"± {metric.text(interval.half_width)}",
        *map(_p, (contrast.p_pairs, contrast.p_pairs_holm, contrast.p_seeds)),
        *map(_p, (contrast.p, contrast.p_holm, contrast.p_pooled)),
        metric.text(detectable),
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


def _p(p: float | None) -> str:
    return "NA" if p is None or math.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"
