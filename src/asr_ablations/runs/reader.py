"""Read the files in a run folder. Nothing in the files is executed, because they may come from a stranger.

The argument `folder` is the run folder unless documented otherwise. Functions raise FileNotFoundError if a file is
missing, and UnreadableFileError if it is damaged.
"""

import csv
import errno
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar, cast

import yaml

from asr_ablations.runs import layout
from asr_ablations.tools.errors import is_lack_of_memory
from asr_ablations.tools.files import read_json
from asr_ablations.tools.typed_json import parse
from asr_verdicts.config import Config
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json, is_regular
from asr_verdicts.record import DataRecord, Environment, SetResult, Summary, UtteranceRow


@dataclass(frozen=True, kw_only=True)
class Status:
    """The contents of status.json. diverged: the first step, counted from 1, whose loss was not finite."""

    status: str
    pid: int | None = None
    host: str | None = None
    started: str | None = None
    seconds: float | None = None
    reason: str | None = None
    diverged: int | None = None


TRAINING, EVALUATING = "training", "evaluating"  # values of Progress.phase


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The contents of progress.json: the phase of a run in progress, and its latest epoch, loss and WER."""

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
    """The part of <run>/evaluations/<name>.json that comparisons need: a decoder's results with a trained model.

    - files: name and SHA-256 of each file that the decoder reads
    - tuning: data set, number of trials and chosen values; None if the decoder was not tuned
    - condition: options and seed of each condition, such as noise, that was applied to the test sets
    - corpora: number of utterances and content hash of each test set from another corpus
    """

    name: str
    decoder: Config
    files: dict[str, dict[str, str]]
    checkpoint: str
    sets: dict[str, SetResult]
    tuning: Config | None
    test_sets: list[str]
    ablation: Config | None = None
    condition: dict[str, Config] = field(default_factory=dict)
    corpora: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LogProbsRecord:
    """Metadata stored next to a file of log-probabilities. lengths: number of frames of each utterance."""

    lengths: list[int]
    seconds: float
    device: str


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Keys of an arm's frozen config whose types are checked when it is read."""

    overrides: list[str] = field(default_factory=list)
    ablation: Config | None = None


@dataclass(frozen=True, kw_only=True)
class Seeded(Declared):
    """Keys of a run's config whose types are checked when it is read."""

    seed: int
    ranks: int | None = None
    data: Config | None = None
    batch: Config | None = None
    loss: Config | None = None
    decoder: Config | None = None
    hardware: Config | None = None


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of a sweep. arms: ids of the runs in this launch. search: whether a search proposed them."""

    started: str
    command: list[str]
    arms: list[str]
    search: bool


@dataclass(frozen=True, kw_only=True)
class SweepManifest:
    """Keys of a sweep's manifest whose types are checked when it is read."""

    arms: list[Config] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    ablation: Config | None = None
    space: Config | None = None


T = TypeVar("T")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML loader that, like OmegaConf, reads 1e-3 as a number and dates as text. YAML 1.1 does the opposite."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d[\d_]*(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def load_yaml(text: str) -> Any:
    """Parse YAML text with OmegaConf's rules for numbers and dates. Raises ValueError or yaml.YAMLError."""
    return yaml.load(text, _Loader)


TEXT_COLUMNS = ("set", "id", "speaker", "reference", "hypothesis", "audio", "unit")
KINDS: dict[str, type] = {**dict.fromkeys(TEXT_COLUMNS, str), "offset": float, "duration": float}  # the rest are int
NEEDED_COLUMNS = (*TEXT_COLUMNS[:5], "words", "substitutions", "deletions", "insertions")


class UnreadableFileError(UsageError):
    """A file in a run folder is damaged or unsafe to read."""

    def __init__(self, path: Path, reason: object) -> None:
        self.path, self.reason = path, " ".join(str(reason).split())
        super().__init__(f"{path}: cannot be read: {self.reason}")


def read_config(folder: Path) -> Config:
    """Return a run's resolved config as plain values."""
    return read_recorded(folder / layout.CONFIG, Seeded)


def read_recorded(path: Path, kind: type = Declared) -> Config:
    """Return a resolved config as plain values. kind: a dataclass with the required keys and their types.

    Interpolations are refused, because a stranger's config could use them to copy data from this machine, such as
    environment variables, into files.
    """
    with readable(path):
        content: Config = load_yaml(path.read_text(encoding="utf-8"))
        parse(kind, content)
    if (key := interpolation_in(content)) is not None:
        raise UnreadableFileError(path, f"{key} contains an interpolation (${{…}}); a recorded config holds values")
    return content


def interpolation_in(content: object, place: str = "") -> str | None:
    """Return the dotted key of the first interpolation in a config's keys or values; None if there is none."""
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
    """Return a run's Hydra overrides, as typed by the user."""
    path = folder / layout.OVERRIDES
    with readable(path):
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line]


def read_status(folder: Path) -> Status:
    """Return a run's recorded status, with the reason and the process id."""
    return read_record(folder / layout.STATUS, Status)


def read_summary(folder: Path) -> Summary:
    """Return a run's final error rates, sizes and times."""
    return read_record(folder / layout.SUMMARY, Summary)


def read_environment(folder: Path) -> Environment:
    """Return the machine, code and package versions of a run."""
    return read_record(folder / layout.ENVIRONMENT, Environment)


def recorded_id(folder: Path) -> str:
    """Return a run's identity, even if its folder was renamed."""
    try:
        return read_environment(folder).id or folder.name.rpartition("-")[2]
    except (FileNotFoundError, UnreadableFileError):
        return folder.name.rpartition("-")[2]


def read_data(folder: Path) -> DataRecord:
    """Return the recorded descriptions of a run's data sets."""
    return read_record(folder / layout.DATA, DataRecord)


def read_model(folder: Path) -> str | None:
    """Return the text diagram of a run's model; None if model.txt is missing, as in runs downloaded from W&B."""
    path = folder / layout.MODEL
    with suppress(FileNotFoundError), readable(path):
        return path.read_text(encoding="utf-8")
    return None


def read_progress(folder: Path) -> Progress:
    """Return the progress of a run that has not ended."""
    return read_record(folder / layout.PROGRESS, Progress)


def read_sweep(folder: Path) -> Config:
    """Return the manifest of the sweep in this folder, with its launches and arms."""
    return _read_object(folder / layout.SWEEP, SweepManifest)


def read_standing(folder: Path) -> Config:
    """Return the state of each arm after the latest planned look at the sweep in this folder."""
    return _read_object(folder / layout.STANDING)


def read_metrics(folder: Path) -> list[dict[str, float | None]]:
    """Return the rows of metrics.csv; values that were not logged are None."""
    path = folder / layout.METRICS
    with readable(path):
        rows = _read_rows(path, ("epoch", "step"))
        return [{key: float(value) if value else None for key, value in row.items()} for row in rows]


def _read_steps(folder: Path) -> list[tuple[str, float]]:
    """Return each step's training loss, as text, and gradient norm; empty if losses.csv is missing."""
    path = folder / layout.LOSSES
    with suppress(FileNotFoundError), readable(path):
        steps = [(row["loss"], float(row.get("gradient_norm") or "nan")) for row in _read_rows(path, ("loss",))]
        for loss, _ in steps:
            float(loss)
        return steps
    return []


def read_losses(folder: Path) -> list[str]:
    """Return the training loss of every step as text, which keeps all digits; empty if losses.csv is missing."""
    return [loss for loss, _ in _read_steps(folder)]


def read_gradient_norms(folder: Path) -> list[float]:
    """Return the gradient norm of every step, NaN if not recorded; empty if losses.csv is missing."""
    return [norm for _, norm in _read_steps(folder)]


def read_utterances(path: Path) -> list[UtteranceRow]:
    """Return the rows of an utterance table. path: a run's utterances.csv, or an evaluation's table."""
    with readable(path):
        rows = [
            {column: KINDS.get(column, int)(value) for column, value in row.items()}
            for row in _read_rows(path, NEEDED_COLUMNS)
        ]
    return cast(list[UtteranceRow], rows)


def read_record(path: Path, kind: type[T]) -> T:
    """Parse a JSON file as an instance of the dataclass `kind`."""
    with readable(path):
        return parse(kind, read_json(path))


def _read_object(path: Path, kind: type = dict) -> Config:
    """Return the object in a JSON file. kind: a dataclass with the required keys and their types."""
    with readable(path):
        content = read_json(path)
        parse(kind, content)
    return content


def _read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file. columns: the required columns."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        head = next(lines, [])
        if missing := [column for column in columns if column not in head]:
            raise ValueError(f"it lacks the column {', '.join(missing)}")
        for line in lines:
            yield dict(zip(head, line, strict=True))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Convert errors that occur while a file is read to UnreadableFileError, unless the file is missing."""
    try:
        if not is_regular(path):
            raise ValueError("it is not a regular file")
        yield
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # the parent is a hypothesis file
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from error
    except (OSError, ValueError, KeyError, csv.Error, yaml.YAMLError, RecursionError) as error:
        raise UnreadableFileError(path, getattr(error, "strerror", None) or error) from error


def read_checkpoint(path: Path) -> Json:
    """Load a checkpoint's tensors, on the CPU, and its plain values.

    Raises UsageError if the file is damaged or holds anything else, and OSError or MemoryError for temporary failures.
    """
    import torch

    if not is_regular(path):
        raise UsageError(f"{path}: refused; it is not a regular file")
    try:
        with path.open("rb") as file, warnings.catch_warnings():  # opened once, because a run may replace last.ckpt
            _check_sums(file)
            file.seek(0)
            warnings.simplefilter("ignore")  # torch warns about unusual pickles, which are refused below
            content = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, MemoryError):
        raise
    except pickle.UnpicklingError as error:
        raise UsageError(f"{path}: refused; it is damaged or holds more than weights and plain values") from error
    except Exception as error:  # torch may raise anything for bytes that are not a checkpoint
        if is_lack_of_memory(error):
            raise MemoryError(first_line(error)) from error
        raise UsageError(f"{path}: damaged and cannot be read: {first_line(error)}") from error
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise UsageError(f"{path}: not a run's checkpoint (it lacks state_dict)")
    return content


def _check_sums(file: IO[bytes]) -> None:
    """Raise BadZipFile if a checkpoint does not match its checksums, which torch does not verify."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if (name := archive.testzip()) is not None:
                raise zipfile.BadZipFile(f"wrong checksum of {name}")


def first_line(error: BaseException) -> str:
    """Return the first non-empty line of an error message, because some libraries append pages of text."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
