"""What two runs of one config have in common, to the bit."""

from dataclasses import dataclass, field

from asr_ablations.runs.checkpoint import weights_hash
from asr_ablations.runs.layout import CHECKPOINTS, LAST, LOSSES, last_checkpoint
from asr_ablations.runs.reader import read_losses
from asr_ablations.runs.record import RunRecord

NUMBERS = ("epoch", "step", "validation/", "train/loss", "train/gradient_norm", "train/learning_rate")
"""How the keys of metrics.csv begin that do not depend on the speed of the machine."""


@dataclass(frozen=True)
class Parting:
    """The first step, counted from 1, whose losses are not the same; None where a run has no such step."""

    step: int
    steps_an_epoch: int
    original: float | None
    reproduction: float | None


@dataclass(frozen=True)
class Evidence:
    """parting: None where all losses are equal; metrics, hypotheses: what differs, as "key, epoch" and "set/id";
    weights: SHA-256 of either's last weights; rates: (original, reproduction) WER as fractions by test set;
    missing: what the original's folder no longer holds, so that it could not be compared.
    """

    steps: int
    utterances: int
    parting: Parting | None
    metrics: list[str]
    hypotheses: list[str]
    weights: tuple[str, str]
    rates: dict[str, tuple[float, float]]
    missing: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Bit for bit, in all that there is."""
        return not (self.parting or self.metrics or self.hypotheses) and len({*filter(None, self.weights)}) < 2


def compare_runs(original: RunRecord, reproduction: RunRecord) -> Evidence:
    """Compare the records of two finished runs."""
    losses = [_losses(run) for run in (original, reproduction)]
    weights = weights_hash(last_checkpoint(original.folder)), weights_hash(last_checkpoint(reproduction.folder))
    missing = [name for name, there in ((LOSSES, losses[0]), (f"{CHECKPOINTS}/{LAST}", weights[0])) if not there]
    return Evidence(
        steps=len(losses[0]),
        utterances=len(original.utterances),
        parting=_first_parting(losses[0], losses[1], int(original.summary.get("epochs") or 1)) if losses[0] else None,
        metrics=_differing_metrics(original, reproduction),
        hypotheses=_differing_hypotheses(original, reproduction),
        weights=weights,
        rates=_rates(original, reproduction),
        missing=missing,
    )


def _losses(run: RunRecord) -> list[str]:
    return read_losses(run.folder) if (run.folder / LOSSES).exists() else []


def _first_parting(original: list[str], reproduction: list[str], epochs: int) -> Parting | None:
    for index in range(max(len(original), len(reproduction))):
        pair = [losses[index] if index < len(losses) else None for losses in (original, reproduction)]
        if pair[0] != pair[1]:
            values = [None if value is None else float(value) for value in pair]
            return Parting(index + 1, max(1, len(original) // epochs), *values)
    return None


def _differing_metrics(original: RunRecord, reproduction: RunRecord) -> list[str]:
    rows = [[_numbers(row) for row in run.metrics] for run in (original, reproduction)]
    if len(rows[0]) != len(rows[1]):
        return [f"{len(rows[0])} rows, {len(rows[1])} rows"]
    return [
        f"{key}, epoch {int(one.get('epoch') or 0) + 1}"
        for one, other in zip(*rows, strict=True)
        for key in sorted({*one, *other})
        if repr(one.get(key)) != repr(other.get(key))  # repr: nan equals nan
    ]


def _numbers(row: dict[str, float | None]) -> dict[str, float | None]:
    return {key: value for key, value in row.items() if key.startswith(NUMBERS)}


def _differing_hypotheses(original: RunRecord, reproduction: RunRecord) -> list[str]:
    read = [
        {f"{row['set']}/{row['id']}": (row["reference"], row["hypothesis"]) for row in run.utterances}
        for run in (original, reproduction)
    ]
    return sorted(name for name in {*read[0], *read[1]} if read[0].get(name) != read[1].get(name))


def _rates(original: RunRecord, reproduction: RunRecord) -> dict[str, tuple[float, float]]:
    there, here = original.summary["sets"], reproduction.summary["sets"]
    names = [name for name in original.summary["test_sets"] if name in there and name in here]
    return {name: (float(there[name]["wer"]), float(here[name]["wer"])) for name in names}
