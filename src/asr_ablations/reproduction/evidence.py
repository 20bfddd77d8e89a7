"""Compare the results of two runs of one config bit for bit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

from asr_ablations.runs.checkpoint import read_checkpoint, weights_hash
from asr_ablations.runs.layout import CHECKPOINTS, LAST, LOSSES, last_checkpoint
from asr_ablations.runs.reader import read_losses
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.config import determining, differences
from asr_verdicts.files import Json
from asr_verdicts.record import DataRecord, Environment, Record

NUMBERS = ("epoch", "step", "validation/", "train/loss", "train/gradient_norm", "train/learning_rate")
"""Prefixes of the keys of metrics.csv that do not depend on the machine's speed."""


@dataclass(frozen=True)
class FirstDifference:
    """The first step, from 1, whose losses (nats) differ. A loss is None if the run ended before this step."""

    step: int
    steps_per_epoch: int
    original: float | None
    reproduction: float | None


@dataclass(frozen=True)
class BitComparison:
    """The compared files of two runs, and the differences.

    first_difference: None if all losses are equal. metrics, hypotheses: differences, as "key, epoch" and "set/id".
    weights: SHA-256 of the last weights of original and reproduction, "" without a checkpoint. rates: WER (fraction) of
    original and reproduction, by test set. missing: files that the original's folder no longer has, so that they could
    not be compared. exact: whether equal inputs must give equal bits, which not every GPU does.
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


def compare_bits(original: Record, reproduction: Record) -> BitComparison:
    """Compare the records of two finished runs."""
    losses, new_losses = _losses(original), _losses(reproduction)
    epochs = original.summary.epochs or 1
    weights = weights_hash(last_checkpoint(original.folder)), weights_hash(last_checkpoint(reproduction.folder))
    compared = {LOSSES: losses, f"{CHECKPOINTS}/{LAST}": weights[0]}
    sets, new_sets = original.measured, reproduction.measured
    names = [name for name in original.summary.test_sets if name in sets and name in new_sets]
    return BitComparison(
        steps=len(losses),
        utterances=len(original.utterances),
        first_difference=_first_difference(losses, new_losses, epochs) if losses else None,
        metrics=_differing_metrics(original, reproduction),
        hypotheses=_differing_hypotheses(original, reproduction),
        weights=weights,
        rates={name: (sets[name].wer, new_sets[name].wer) for name in names},
        missing=[name for name, content in compared.items() if not content],
        exact=not original.environment.hardware.gpus,
    )


def _losses(run: Record) -> list[str]:
    """Read the losses of every step; empty if the folder lacks the table."""
    return read_losses(run.folder) if (run.folder / LOSSES).exists() else []


def _first_difference(original: list[str], reproduction: list[str], epochs: int) -> FirstDifference | None:
    for step, texts in enumerate(zip_longest(original, reproduction), start=1):
        if texts[0] != texts[1]:
            values = [None if text is None else float(text) for text in texts]
            return FirstDifference(step, max(1, len(original) // epochs), *values)
    return None


def _differing_metrics(original: Record, reproduction: Record) -> list[str]:
    rows: Iterator[tuple[Json, Json]] = zip_longest(original.metrics, reproduction.metrics, fillvalue={})
    return [
        f"{key}, epoch {int({**new_row, **row}.get('epoch') or 0) + 1}"
        for row, new_row in rows
        for key in sorted({*row, *new_row})
        if key.startswith(NUMBERS) and repr(row.get(key)) != repr(new_row.get(key))  # repr: nan equals nan
    ]


def _differing_hypotheses(original: Record, reproduction: Record) -> list[str]:
    texts, new_texts = (
        {f"{row['set']}/{row['id']}": (row["reference"], row["hypothesis"]) for row in run.utterances}
        for run in (original, reproduction)
    )
    return sorted(name for name in {*texts, *new_texts} if texts.get(name) != new_texts.get(name))


DETERMINING = ("config", "data", "code")
"""Kinds that make another experiment. Other kinds belong to the machine, and change only the last bits."""


@dataclass(frozen=True)
class Cause:
    """One difference. kind: config, data, code, versions or hardware. what: a key, set, file or package."""

    kind: str
    what: str
    original: object
    reproduction: object


ANY_ORDER = Cause("hardware", "sums on a GPU", *["in any order: cuDNN may add up gradients by atomics"] * 2)
"""Two runs on one GPU may differ in their last bits (cuDNN's documentation, "Reproducibility (Determinism)")."""


def find_causes(original: Record, reproduction: Record) -> list[Cause]:
    """Find all differences besides the results; config, data and code come first."""
    result = [
        *find_edits(original),
        *_differing("config", determining(original.config), determining(reproduction.config)),
        *_differing("data", _describe_data(original.data), _describe_data(reproduction.data)),
    ]
    # a resumed run may have continued with other code, or on another machine
    for other in (*original.environment.sessions[1:], *reproduction.environment.sessions):
        result += [cause for cause in compare_environments(original.environment, other) if cause not in result]
    if reproduction.config.get("gpus") != 0 and reproduction.environment.hardware.gpus:
        result.append(ANY_ORDER)
    return sorted(result, key=lambda cause: (*DETERMINING, cause.kind).index(cause.kind))


def find_edits(original: Record) -> list[Cause]:
    """Find edits of config.yaml since the run, by the config in its last checkpoint, whose texts are not resolved."""
    path = last_checkpoint(original.folder)
    run = read_checkpoint(path).get("run") if path.exists() else None
    config = run.get("config") if isinstance(run, dict) else None
    return _differing("config", determining(config), determining(original.config)) if isinstance(config, dict) else []


def _describe_data(data: DataRecord) -> dict[str, object]:
    """Return the content of each set, and the letters."""
    sets = {name: as_json(content) for name, content in data.sets.items()}
    return {**sets, "alphabet": data.alphabet, "separation": data.separation}


def compare_environments(original: Environment, other: Environment) -> list[Cause]:
    """Compare two environment.json: code by its files, versions, hardware with its threads."""
    return [
        *_differing("code", {"behaviour": original.behaviour}, {"behaviour": other.behaviour}),
        *_differing("code", original.code.files or {}, other.code.files or {}),
        *_differing("versions", original.versions, other.versions),
        *_differing("hardware", as_json(original.hardware), as_json(other.hardware)),
    ]


def _differing(kind: str, original: Mapping[str, object], reproduction: Mapping[str, object]) -> list[Cause]:
    return [Cause(kind, key, old, new) for key, old, new in differences(original, reproduction)]
