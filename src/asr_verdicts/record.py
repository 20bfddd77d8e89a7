"""The record of a run, which comparisons read: its config, seed, results on each set, and environment."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, NotRequired, Protocol, TypedDict, TypeVar

from asr_verdicts.config import Config, leaves
from asr_verdicts.error_counts import total_errors


class UtteranceRow(TypedDict):
    """A row of utterances.csv.

    - words, characters: number of words and characters in the reference
    - offset, duration: start of the utterance in the recording, and its length, in seconds
    - channel: number of the audio channel, from 0; −1 for the mean of all channels
    - unit: kind and name of the independent sampling unit, such as "voice f3"; empty or absent if it is the speaker
    """

    set: str
    id: str
    speaker: str
    unit: NotRequired[str]
    reference: str
    hypothesis: str
    words: int
    substitutions: int
    deletions: int
    insertions: int
    characters: NotRequired[int]
    character_substitutions: NotRequired[int]
    character_deletions: NotRequired[int]
    character_insertions: NotRequired[int]
    audio: NotRequired[str]
    offset: NotRequired[float]
    duration: NotRequired[float]
    channel: NotRequired[int]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Error rates on a set as fractions, with counts of words and word errors.

    cer_longer: character errors divided by the length of the reference or hypothesis, whichever is longer
    """

    utterances: int | None = None
    words: int | None = None
    wer: float
    cer: float | None = None
    cer_longer: float | None = None
    substitutions: int | None = None
    deletions: int | None = None
    insertions: int | None = None


def rates(rows: Sequence[UtteranceRow]) -> Rates:
    """Compute error rates and counts over the utterances of a set. If a row lacks character counts, the CER is None."""
    words, has_characters = total_errors(rows, "wer"), all("characters" in row for row in rows)
    return Rates(
        utterances=len(rows),
        words=words.total,
        wer=words.rate,
        cer=total_errors(rows, "cer").rate if has_characters else None,
        cer_longer=total_errors(rows, "cer_longer").rate if has_characters else None,
        substitutions=words.substitutions,
        deletions=words.deletions,
        insertions=words.insertions,
    )


@dataclass(frozen=True, kw_only=True)
class SetResult(Rates):
    """The result of a run on a set. loss: mean loss over utterances, in nats; None if it is NaN or infinite."""

    null: ClassVar = ("loss",)

    loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of a run, stored as summary.json. Times are in seconds, memory in bytes, and rates are fractions.

    - seconds: wall-clock time of training and evaluation
    - phase_seconds: time spent in setup, train, validate, decode, checkpoint and evaluate, by phase
    - processor_seconds: processor time of training and evaluation on rank 0, over all threads
    - launch_seconds: time from the start of the launcher to the end of the first training step
    - metrics: last row of metrics.csv
    - validation_losses: loss on the first validation set at each validation, in nats
    - until: the run's part in the sweep's plan (PlannedRun); None if there is no plan
    """

    null: ClassVar = ("best_validation_wer", "launch_seconds")

    id: str | None = None
    name: str | None = None
    sets: dict[str, SetResult]
    test_sets: list[str]
    best_validation_wer: float | None = None
    validation_losses: list[float] | None = None
    parameters: int | None = None
    epochs: int | None = None
    steps: int | None = None
    train_utterances: int | None = None
    train_hours: float | None = None
    left_out: list[str] | None = None
    precision: str | None = None
    seed_streams: dict[str, int] | None = None
    ranks: int | None = None
    launch_seconds: float | None = None
    peak_memory_bytes: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    audio_hours_seen: float | None = None
    train_batch_seconds: float | None = None
    audio_hours_per_second: float | None = None
    phase_seconds: dict[str, float] | None = None
    processor_seconds: float | None = None
    until: dict[str, object] | None = None
    metrics: dict[str, float] | None = None

    def value(self, set_: str, name: str) -> float | None:
        """Return an error rate, loss or count on a set; None if the run did not record it."""
        value: float | None = getattr(self.sets.get(set_), name, None)
        return value


NO_SUMMARY = Summary(sets={}, test_sets=[])


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The hardware of a run.

    - cores: number of CPU cores that the process may use
    - threads: number of threads that PyTorch uses
    - native: instruction set of the native library; "none" if PyTorch's operations are used instead; None in records
      older than the library
    - buses: one-line description of each GPU's bus
    - links: type of the connection between each pair of GPUs

    `buses` and `links` are None if there is no GPU, and empty if nvidia-smi is missing or fails.
    """

    machine: str | None = None
    processor: str | None = None
    cores: int | None = None
    threads: int | None = None
    native: str | None = None
    gpus: list[str] = field(default_factory=list)
    buses: list[str] | None = None
    links: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Code:
    """The version of the code that a run used.

    - commit, dirty_diff: git commit and uncommitted changes; None outside a git checkout
    - files: hash of each source file
    """

    commit: str | None = None
    dirty_diff: str | None = None
    files: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Composed:
    """The config file from which Hydra composed a run's config, and the config folder given by -cd."""

    null: ClassVar = ("config_name", "config_dir")

    config_name: str | None
    config_dir: str | None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The machine, code and versions of a run, stored as environment.json.

    - started: UTC time of the start, in ISO 8601
    - composed: origin of the config; None if the run used a frozen config
    - derived: config keys that are computed from other keys, each with its source keys
    - resumed: environments in which the run continued after interruptions
    """

    null: ClassVar = ("composed",)

    started: str | None = None
    command: list[str] | None = None
    composed: Composed | None = None
    versions: dict[str, str] = field(default_factory=dict)
    hardware: Hardware = field(default_factory=Hardware)
    code: Code = field(default_factory=Code)
    behaviour: int | None = None
    id: str | None = None
    derived: dict[str, list[str]] | None = None
    data_fingerprint: str | None = None
    resumed: list["Environment"] | None = None

    @property
    def sessions(self) -> list["Environment"]:
        """The environment in which the run began, followed by those in which it continued."""
        return [self, *(self.resumed or [])]


@dataclass(frozen=True, kw_only=True)
class SetContent:
    """The size and hash of one set of a corpus, and its overlap with the training set.

    - sha256: hash of the transcripts and the audio
    - left_out: ids of the utterances that were left out, by reason
    - in_training: number of the set's utterances, speakers and sentences that also occur in the training set
    """

    utterances: int | None = None
    hours: float | None = None
    speakers: int | None = None
    units: int | None = None
    words: int | None = None
    vocabulary: int | None = None
    sha256: str | None = None
    left_out: dict[str, list[str]] | None = None
    infeasible: list[str] | None = None
    in_training: dict[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class DataRecord:
    """The sizes and hashes of the sets of a run's corpus, stored as data.json.

    training_counts: number of times that each word of the validation and test sets occurs in the training set
    """

    fingerprint: str | None = None
    sets: dict[str, SetContent] = field(default_factory=dict)
    training_counts: dict[str, int] | None = None
    alphabet: str | None = None
    separation: str | None = None

    def trained_on(self, set_: str) -> str:
        """Describe how many speakers of a set are also in the training set; "" if none are."""
        content = self.sets.get(set_, SetContent())
        if not (count := (content.in_training or {}).get("speakers")):
            return ""
        return f"{count}{f' of {content.speakers}' if content.speakers else ''} speakers of {set_} are in training"

    def hash(self, set_: str) -> str | None:
        """Return the hash of a set's transcripts and audio; None if it was not recorded."""
        return self.sets[set_].sha256 if set_ in self.sets else None


SYSTEM = "system"  # config key for the system's name, in records made from hypotheses

# value of `Record.model` if each arm is a single trained system; verdicts then apply only to these systems
ONE_SYSTEM = "one system of each arm"

FINGERPRINT = "data.json"  # prefix of keys for data hashes: data.json.train is the hash of the training set

BEHAVIOUR = "behaviour"  # key for the version of the code's behaviour


class ConfiguredRun(Protocol):
    """A run with a config, which may not have started yet.

    - config: the resolved config
    - content: everything except the seed that can change the result, by dotted key
    - derived: config keys that are computed from other keys, each with its source keys; None if unknown
    """

    @property
    def config(self) -> Config: ...

    @property
    def overrides(self) -> list[str]: ...

    @property
    def derived(self) -> dict[str, list[str]] | None: ...

    @property
    def content(self) -> dict[str, object]: ...


AnyRun = TypeVar("AnyRun", bound=ConfiguredRun)


@dataclass(frozen=True)
class Record:
    """A run with its config, results and environment, usually read from its folder.

    - config: the resolved config
    - data: sizes and hashes of the corpus; without sets if there is no data.json, as for runs from W&B
    - metrics: rows of metrics.csv
    - utterances: rows of utterances.csv; empty if the run diverged
    - model: the tested weights, as <run id>/<checkpoint file>; "" if unknown. Records with the same model differ only
      in their decoder, so they can be paired.
    - searched: whether a hyperparameter search proposed this run, so that a good result may be luck
    - diverged_at: training step, from 1, at which the loss was NaN or infinite; None for a finished run
    - place: position among the runs of the sweep, from 0; None if unknown
    """

    folder: Path
    config: Config
    overrides: list[str]
    summary: Summary = NO_SUMMARY
    metrics: list[dict[str, float | None]] = field(default_factory=list)
    utterances: list[UtteranceRow] = field(default_factory=list)
    environment: Environment = field(default_factory=Environment)
    data: DataRecord = field(default_factory=DataRecord)
    model: str = ""
    searched: bool = False
    diverged_at: int | None = None
    place: int | None = None

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def derived(self) -> dict[str, list[str]] | None:
        return self.environment.derived

    @cached_property
    def hypotheses(self) -> list[str]:
        """The hypothesis of each utterance, in the order of `utterances`."""
        return [row["hypothesis"] for row in self.utterances]

    @cached_property
    def content(self) -> dict[str, object]:
        """Everything except the seed that can change the result: config values, data hashes and behaviour version.

        If the behaviour version is unknown, as for runs from W&B, it counts as 1.
        """
        hashes = {f"{FINGERPRINT}.{name}": of.sha256 or json.dumps(asdict(of)) for name, of in self.data.sets.items()}
        behaviour = self.environment.behaviour
        return {**leaves(self.config), **hashes, BEHAVIOUR: 1 if behaviour is None else behaviour}

    @cached_property
    def validation_sets(self) -> list[str]:
        """The names of the validation sets. The best checkpoint is chosen on the first one.

        They are read from metrics.csv if the config contains paths, not names, as for manifests and Kaldi directories.
        """
        given = (self.config.get("data") or {}).get("validation") or []
        names = [given] if isinstance(given, str) else [str(name) for name in given]
        columns: set[str] = set().union(*self.metrics)
        logged = {column.split("/")[1] for column in columns if column.startswith("validation/")}
        if logged.issuperset(names) or not logged:
            return names
        return [*(name for name in self.summary.sets if name in logged), *sorted(logged - self.summary.sets.keys())]

    @cached_property
    def measured(self) -> dict[str, SetResult]:
        """The result on each set, computed from its utterances or, if it has none, read from the summary."""
        by_set: dict[str, list[UtteranceRow]] = {}
        for row in self.utterances:
            by_set.setdefault(row["set"], []).append(row)
        counted = {
            name: SetResult(**vars(rates(rows)), loss=self.summary.value(name, "loss")) for name, rows in by_set.items()
        }
        return {**self.summary.sets, **counted}

    def value(self, set_: str, name: str) -> float | None:
        """Return an error rate, loss or count on a set; None if it is unknown."""
        value: float | None = getattr(self.measured.get(set_), name, None)
        return value


UnfinishedState = Literal["failed", "interrupted", "running", "pruned", "missing", "damaged"]
"""The states of a run without a result.

- failed: it stopped because of an error in the code or the machine
- interrupted: the user stopped it, or it died without an error message
- pruned: it was stopped early because of its intermediate results
- missing: it never started
- damaged: its files cannot be read
"""


@dataclass(frozen=True)
class Unfinished:
    """A run without a result, with the reason in one line.

    config, overrides: read from the run folder or from the frozen config of its arm, and used to assign the run to an
    arm; None and empty if they cannot be read
    """

    folder: Path
    state: UnfinishedState
    reason: str
    config: Config | None = None
    overrides: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Records:
    """The runs to compare, each in exactly one of the lists `runs`, `diverged` and `unfinished`.

    - runs: finished runs, in the order in which they started
    - diverged: runs that stopped because the loss was NaN or infinite, in the same order; they count as results
    - unfinished: runs without a result
    - warnings: warnings about the origin of the runs
    - scored: a sentence that states how the transcripts were normalised before scoring; "" for training runs
    """

    runs: list[Record]
    diverged: list[Record] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    scored: str = ""
