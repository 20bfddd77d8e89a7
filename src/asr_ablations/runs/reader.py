"""The only readers of the files in a run's folder. It may come from strangers, so nothing in it is executed.

Every function takes a run's folder. It raises FileNotFoundError, or UnreadableFileError for a damaged file.
"""

import csv
import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import yaml

from asr_ablations.runs import layout
from asr_ablations.tools.files import read_json
from asr_ablations.tools.typed_json import parse
from asr_verdicts.config import Config
from asr_verdicts.errors import UsageError
from asr_verdicts.files import is_regular
from asr_verdicts.record import DataRecord, Environment, SetResult, Summary, UtteranceRow


@dataclass(frozen=True, kw_only=True)
class Status:
    """The progress of a run in status.json. diverged: the first step, from 1, with a loss that is not finite."""

    status: str
    pid: int | None = None
    host: str | None = None
    started: str | None = None
    seconds: float | None = None
    reason: str | None = None
    diverged: int | None = None


TRAINING, EVALUATING = "training", "evaluating"  # phases of a run in progress


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The latest epoch, loss and WER of a running run, and its phase, in progress.json."""

    null: ClassVar = ("loss", "wer")

    epoch: int
    epochs: int
    batch: int
    batches: float
    loss: float | None
    wer: float | None
    seconds_left: float
    phase: str = TRAINING


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """The result of a decoder on a trained run: the keys of <run>/evaluations/<name>.json needed by comparisons.

    files: name and sha256 of each file that the decoder reads. tuning: the set, trials, and chosen values, if any.
    """

    name: str
    decoder: Config
    files: dict[str, dict[str, str]]
    checkpoint: str
    sets: dict[str, SetResult]
    tuning: Config | None
    test_sets: list[str]
    ablation: Config | None = None


@dataclass(frozen=True, kw_only=True)
class LogProbsRecord:
    """The record next to a file of log-probabilities. lengths: in frames, by utterance."""

    lengths: list[int]
    seconds: float
    device: str


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The keys of a frozen config that are read back."""

    overrides: list[str] = field(default_factory=list)
    ablation: Config | None = None


@dataclass(frozen=True, kw_only=True)
class Seeded(Declared):
    """The keys of a run's config that are read back."""

    seed: int
    ranks: int | None = None
    data: Config | None = None
    batch: Config | None = None
    loss: Config | None = None
    decoder: Config | None = None
    hardware: Config | None = None


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One start of a sweep: time, command line, ids of its runs, and whether a search proposes them."""

    started: str
    command: list[str]
    arms: list[str]
    search: bool


@dataclass(frozen=True, kw_only=True)
class SweepManifest:
    """The keys of a sweep's manifest that are read back."""

    arms: list[Config] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    ablation: Config | None = None
    space: Config | None = None


T = TypeVar("T")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads 1e-3 as a number and dates as text, like OmegaConf, which wrote the file; YAML 1.1 does the opposite."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def load_yaml(text: str) -> Any:
    """Parse YAML, with numbers as in OmegaConf. Raises ValueError and yaml.YAMLError."""
    return yaml.load(text, _Loader)


TEXT_COLUMNS = ("set", "id", "speaker", "reference", "hypothesis", "audio", "unit")
KINDS: dict[str, type] = {**dict.fromkeys(TEXT_COLUMNS, str), "offset": float, "duration": float}  # others: int
NEEDED_COLUMNS = (*TEXT_COLUMNS[:5], "words", "substitutions", "deletions", "insertions")


class UnreadableFileError(UsageError):
    """A file in a run's folder is damaged or must not be read."""

    def __init__(self, path: Path, reason: object) -> None:
        self.path, self.reason = path, " ".join(str(reason).split())
        super().__init__(f"{path}: cannot be read: {self.reason}")


def read_config(folder: Path) -> Config:
    """Return a run's resolved config as plain values."""
    return read_recorded(folder / layout.CONFIG, Seeded)


def read_recorded(path: Path, kind: type = Declared) -> Config:
    """Return a resolved config as plain values. Interpolations are refused: a stranger's config could use them to copy
    data of this machine, such as environment variables, into files.

    kind: a dataclass with the required keys and their types.
    """
    with readable(path):
        content: Config = load_yaml(path.read_text(encoding="utf-8"))
        parse(kind, content)
    if (key := interpolation_in(content)) is not None:
        raise UnreadableFileError(path, f"{key} contains an interpolation (${{…}}); a recorded config holds values")
    return content


def interpolation_in(content: object, place: str = "") -> str | None:
    """Return the dotted key of the first interpolation in the keys or values of a config; None without any."""
    if not isinstance(content, (dict, list)):
        return place if "${" in str(content) else None
    for name, part in content.items() if isinstance(content, dict) else enumerate(content):
        below = f"{place}.{name}".lstrip(".")
        if "${" in str(name):
            return below
        if (inner := interpolation_in(part, below)) is not None:
            return inner
    return None


def read_overrides(folder: Path) -> list[str]:
    """Return the overrides that the user typed for this run."""
    path = folder / layout.OVERRIDES
    with readable(path):
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def read_status(folder: Path) -> Status:
    """Return a run's status with reason, process, host, start and seconds."""
    return read_record(folder / layout.STATUS, Status)


def read_summary(folder: Path) -> Summary:
    """Return a run's final rates, sizes and times."""
    return read_record(folder / layout.SUMMARY, Summary)


def read_environment(folder: Path) -> Environment:
    """Return a run's machine, code and versions."""
    return read_record(folder / layout.ENVIRONMENT, Environment)


def read_data(folder: Path) -> DataRecord:
    """Return the content of each set of a run's corpus."""
    return read_record(folder / layout.DATA, DataRecord)


def read_model(folder: Path) -> str | None:
    """Return the text diagram of a run's model; None if the run has none, as from W&B."""
    path = folder / layout.MODEL
    with suppress(FileNotFoundError), readable(path):
        return path.read_text(encoding="utf-8")
    return None


def read_progress(folder: Path) -> Progress:
    """Return the latest epoch, loss and WER of a running run."""
    return read_record(folder / layout.PROGRESS, Progress)


def read_sweep(folder: Path) -> Config:
    """Return a sweep's manifest with its launches and arms. folder: the sweep's."""
    return _read_object(folder / layout.SWEEP, SweepManifest)


def read_standing(folder: Path) -> Config:
    """Return the state of each arm of a planned sweep after its latest look. folder: the sweep's."""
    return _read_object(folder / layout.STANDING)


def read_metrics(folder: Path) -> list[dict[str, float | None]]:
    """Return the rows of metrics.csv, with None for values that were not logged."""
    path = folder / layout.METRICS
    with readable(path):
        rows = _read_rows(path, ("epoch", "step"))
        return [{key: float(value) if value else None for key, value in row.items()} for row in rows]


def _read_steps(folder: Path) -> list[tuple[str, float]]:
    """Return the training loss of every step as text, and the gradient norm, nan if not recorded."""
    path = folder / layout.LOSSES
    with readable(path):
        steps = [(row["loss"], float(row.get("gradient_norm") or "nan")) for row in _read_rows(path, ("loss",))]
        for loss, _ in steps:
            float(loss)
        return steps


def read_losses(folder: Path) -> list[str]:
    """Return the training loss of every step as text, which is exact."""
    return [loss for loss, _ in _read_steps(folder)]


def read_gradient_norms(folder: Path) -> list[float]:
    """Return the gradient norm at every step, nan if not recorded; empty without the file, as from W&B."""
    with suppress(FileNotFoundError):
        return [norm for _, norm in _read_steps(folder)]
    return []


def read_utterances(path: Path) -> list[UtteranceRow]:
    """Return the rows of an utterance table: utterances.csv, or an evaluation's table. Counts are whole numbers."""
    with readable(path):
        rows = [
            {column: KINDS.get(column, int)(value) for column, value in row.items()}
            for row in _read_rows(path, NEEDED_COLUMNS)
        ]
    return cast(list[UtteranceRow], rows)


def read_evaluation(path: Path) -> EvaluationRecord:
    """Return the record of an evaluation, <run>/evaluations/<name>.json."""
    return read_record(path, EvaluationRecord)


def read_log_probs(path: Path) -> LogProbsRecord:
    """Return the record next to a file of log-probabilities, <run>/logprobs/<set>-<key>.json."""
    return read_record(path, LogProbsRecord)


def read_record(path: Path, kind: type[T]) -> T:
    """Return the object in a JSON file as a dataclass."""
    with readable(path):
        return parse(kind, read_json(path))


def _read_object(path: Path, kind: type = dict) -> Config:
    """Return the whole object in a file that has the required keys."""
    with readable(path):
        content = read_json(path)
        parse(kind, content)
    return content


def _read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Yield the rows of a table that has these columns."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        head = next(lines, [])
        if missing := [column for column in columns if column not in head]:
            raise ValueError(f"it lacks the column {', '.join(missing)}")
        for line in lines:
            yield dict(zip(head, line, strict=True))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raise UnreadableFileError for all errors in the block, except for a missing file."""
    try:
        if not is_regular(path):
            raise ValueError("it is not a regular file")
        yield
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # the record describes a hypothesis file instead of a run's folder
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from error
    except (OSError, ValueError, KeyError, csv.Error, yaml.YAMLError, RecursionError) as error:
        raise UnreadableFileError(path, getattr(error, "strerror", None) or error) from error
