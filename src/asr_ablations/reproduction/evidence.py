"""Compare the results of two runs of one config bit for bit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asr_ablations.reproduction.original import Original
from asr_ablations.runs.checkpoint import read_checkpoint, weights_hash
from asr_ablations.runs.identity import BEHAVIOUR, content, identity
from asr_ablations.runs.layout import CHECKPOINTS, LAST, LOSSES, last_checkpoint
from asr_ablations.runs.reader import interpolation_in, read_losses
from asr_ablations.tools.typed_json import as_json
from asr_verdicts.config import differences
from asr_verdicts.errors import UsageError
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


def refuse_damaged(run: Record) -> None:
    """Raise UsageError, before training again, if the original's losses or weights cannot be read."""
    _losses(run)
    weights_hash(last_checkpoint(run.folder))


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
    for index in range(max(len(original), len(reproduction))):
        texts = [losses[index] if index < len(losses) else None for losses in (original, reproduction)]
        if texts[0] != texts[1]:
            values = [None if text is None else float(text) for text in texts]
            return FirstDifference(index + 1, max(1, len(original) // epochs), *values)
    return None


def _differing_metrics(original: Record, reproduction: Record) -> list[str]:
    rows, new_rows = (
        [{key: value for key, value in row.items() if key.startswith(NUMBERS)} for row in run.metrics]
        for run in (original, reproduction)
    )
    if len(rows) != len(new_rows):
        return [f"{len(rows)} rows, {len(new_rows)} rows"]
    return [
        f"{key}, epoch {int(row.get('epoch') or 0) + 1}"
        for row, new_row in zip(rows, new_rows, strict=True)
        for key in sorted({*row, *new_row})
        if repr(row.get(key)) != repr(new_row.get(key))  # repr: nan equals nan
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
    """One difference. kind: config, data, code, versions, hardware or threads. what: a key, set, file or package."""

    kind: str
    what: str
    original: object
    reproduction: object


ANY_ORDER = Cause("hardware", "sums on a GPU", *["in any order: cuDNN may add up gradients by atomics"] * 2)
"""Two runs on one GPU may differ in their last bits (cuDNN's documentation, "Reproducibility (Determinism)")."""


def find_causes(original: Original, reproduction: Record) -> list[Cause]:
    """Find all differences besides the results; config, data and code come first."""
    cfg = OmegaConf.create(reproduction.config)
    environment = original.record.environment
    result = [
        *find_edits(original),
        *_differing("config", content(original.cfg), content(cfg)),
        *_compare_data(original.record.data, reproduction.data),
    ]
    # a resumed run may have continued with other code, or on another machine
    for other in (*environment.sessions[1:], *reproduction.environment.sessions):
        result += [cause for cause in compare_environments(environment, other) if cause not in result]
    if reproduction.config.get("gpus") != 0 and reproduction.environment.hardware.gpus:
        result.append(ANY_ORDER)
    return sorted(result, key=lambda cause: (*DETERMINING, cause.kind).index(cause.kind))


def find_edits(original: Original) -> list[Cause]:
    """Find edits of config.yaml since the run, by the config in its checkpoint, or else by the run's identity."""
    if (cfg := _checkpoint_config(original)) is not None:
        return _differing("config", content(cfg), content(original.cfg))
    environment = original.record.environment
    recorded, current = environment.id, identity(original.cfg, environment.data_fingerprint or "")
    if environment.behaviour != BEHAVIOUR or recorded in (None, current):
        return []
    return [Cause("config", "config.yaml, some key of it", f"id {recorded}", f"id {current}")]


def _checkpoint_config(original: Original) -> DictConfig | None:
    """Return the config in the run's last checkpoint, or None without a checkpoint or config."""
    path = last_checkpoint(original.folder)
    if not path.exists():
        return None
    run = read_checkpoint(path).get("run")
    config = run.get("config") if isinstance(run, dict) else None
    if (key := interpolation_in(config)) is not None:
        raise UsageError(f"{path}: damaged, its config: {key} holds an interpolation (${{…}})")
    try:
        return OmegaConf.create(config) if isinstance(config, dict) else None
    except OmegaConfBaseException as error:
        raise UsageError(f"{path}: damaged, its config: {' '.join(str(error).split())}") from error


def _compare_data(original: DataRecord, reproduction: DataRecord) -> list[Cause]:
    """Compare two data.json: one cause for each differing set, and one for each other key."""
    result = []
    for name in dict.fromkeys([*original.sets, *reproduction.sets]):
        first, second = (as_json(data.sets[name]) if name in data.sets else None for data in (original, reproduction))
        if changes := differences(first, second):
            old, new = {key: value for key, value, _ in changes}, {key: value for key, _, value in changes}
            result.append(Cause("data", name, old, new))
    letters, new_letters = (
        {"alphabet": data.alphabet, "separation": data.separation} for data in (original, reproduction)
    )
    return result + _differing("data", letters, new_letters)


def compare_environments(original: Environment, other: Environment) -> list[Cause]:
    """Compare two environment.json: code, versions, hardware, threads."""
    hardware, new_hardware = as_json(original.hardware), as_json(other.hardware)
    threads, new_threads = hardware.pop("threads", None), new_hardware.pop("threads", None)
    return [
        *_code(original, other),
        *_differing("versions", original.versions, other.versions),
        *_differing("hardware", hardware, new_hardware),
        *_differing("threads", {"threads": threads}, {"threads": new_threads}),
    ]


def _code(original: Environment, other: Environment) -> Iterator[Cause]:
    """Compare source files by name, or commits if a record lacks file hashes. Equal files are equal code."""
    yield from _differing("code", {"behaviour": original.behaviour}, {"behaviour": other.behaviour})
    files, new_files = original.code.files, other.code.files
    if files and new_files:
        for name in sorted({*files, *new_files}):
            if files.get(name) != new_files.get(name):
                yield Cause("code", name, files.get(name), new_files.get(name))
        return
    yield from _differing("code", as_json(replace(original.code, files=None)), as_json(replace(other.code, files=None)))


def _differing(kind: str, original: Mapping[str, object], reproduction: Mapping[str, object]) -> list[Cause]:
    return [Cause(kind, key, old, new) for key, old, new in differences(original, reproduction)]
