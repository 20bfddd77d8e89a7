"""Bit-for-bit comparison of the results of two runs of one config."""

from dataclasses import dataclass, field

from asr_ablations.runs.checkpoint import weights_hash
from asr_ablations.runs.layout import CHECKPOINTS, LAST, LOSSES, last_checkpoint
from asr_ablations.runs.reader import read_losses
from asr_ablations.runs.record import RunRecord

NUMBERS = ("epoch", "step", "validation/", "train/loss", "train/gradient_norm", "train/learning_rate")
"""Beginnings of the keys of metrics.csv that do not depend on the speed of the machine."""


@dataclass(frozen=True)
class FirstDifference:
    """The first step, counted from 1, whose losses in nats differ. original, reproduction: None where a run has no such
    step.
    """

    step: int
    steps_per_epoch: int
    original: float | None
    reproduction: float | None


@dataclass(frozen=True)
class Evidence:
    """What was compared, and what differs.

    first_difference: None where all losses are equal; metrics, hypotheses: what differs, as "key, epoch" and "set/id";
    weights: SHA-256 of the last weights of the original and of the reproduction, "" without a checkpoint; rates:
    (original, reproduction) WER as fractions by test set; missing: files that the original's folder no longer holds, so
    that they could not be compared. exact: whether the same inputs give the same bits again: not on every GPU.
    """

    steps: int
    utterances: int
    first_difference: FirstDifference | None
    metrics: list[str]
    hypotheses: list[str]
    weights: tuple[str, str]
    rates: dict[str, tuple[float, float]]
    missing: list[str] = field(default_factory=list)
    exact: bool = True

    @property
    def equal(self) -> bool:
        """Whether everything that could be compared is equal bit for bit."""
        return not (self.first_difference or self.metrics or self.hypotheses) and len({*filter(None, self.weights)}) < 2


def refuse_damaged(run: RunRecord) -> None:
    """Raises UsageError for an original whose losses or weights cannot be read: before it is trained again."""
    _losses(run)
    weights_hash(last_checkpoint(run.folder))


def compare_runs(original: RunRecord, reproduction: RunRecord) -> Evidence:
    """Compare the records of two finished runs."""
    losses, new_losses = _losses(original), _losses(reproduction)
    epochs = int(original.summary.get("epochs") or 1)
    weights = weights_hash(last_checkpoint(original.folder)), weights_hash(last_checkpoint(reproduction.folder))
    compared = {LOSSES: losses, f"{CHECKPOINTS}/{LAST}": weights[0]}
    return Evidence(
        steps=len(losses),
        utterances=len(original.utterances),
        first_difference=_first_difference(losses, new_losses, epochs) if losses else None,
        metrics=_differing_metrics(original, reproduction),
        hypotheses=_differing_hypotheses(original, reproduction),
        weights=weights,
        rates=_rates(original, reproduction),
        missing=[name for name, content in compared.items() if not content],
        exact=not original.environment.get("hardware", {}).get("gpus"),
    )


def _losses(run: RunRecord) -> list[str]:
    """The losses of every step; none where the folder has no table of them."""
    return read_losses(run.folder) if (run.folder / LOSSES).exists() else []


def _first_difference(original: list[str], reproduction: list[str], epochs: int) -> FirstDifference | None:
    for index in range(max(len(original), len(reproduction))):
        texts = [losses[index] if index < len(losses) else None for losses in (original, reproduction)]
        if texts[0] != texts[1]:
            values = [None if text is None else float(text) for text in texts]
            return FirstDifference(index + 1, max(1, len(original) // epochs), *values)
    return None


def _differing_metrics(original: RunRecord, reproduction: RunRecord) -> list[str]:
    rows, new_rows = ([_numbers(row) for row in run.metrics] for run in (original, reproduction))
    if len(rows) != len(new_rows):
        return [f"{len(rows)} rows, {len(new_rows)} rows"]
    return [
        f"{key}, epoch {int(row.get('epoch') or 0) + 1}"
        for row, new_row in zip(rows, new_rows, strict=True)
        for key in sorted({*row, *new_row})
        if repr(row.get(key)) != repr(new_row.get(key))  # repr: nan equals nan
    ]


def _numbers(row: dict[str, float | None]) -> dict[str, float | None]:
    return {key: value for key, value in row.items() if key.startswith(NUMBERS)}


def _differing_hypotheses(original: RunRecord, reproduction: RunRecord) -> list[str]:
    texts, new_texts = (
        {f"{row['set']}/{row['id']}": (row["reference"], row["hypothesis"]) for row in run.utterances}
        for run in (original, reproduction)
    )
    return sorted(name for name in {*texts, *new_texts} if texts.get(name) != new_texts.get(name))


def _rates(original: RunRecord, reproduction: RunRecord) -> dict[str, tuple[float, float]]:
    sets, new_sets = original.summary["sets"], reproduction.summary["sets"]
    names = [name for name in original.summary["test_sets"] if name in sets and name in new_sets]
    return {name: (float(sets[name]["wer"]), float(new_sets[name]["wer"])) for name in names}
