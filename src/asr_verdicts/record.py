"""A run as comparisons read it: config, seed, results on each set, and origin."""

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

    - words, characters: of the reference; offset, duration: in seconds; channel: from 0; −1 for the mean of the
      channels
    - unit: what was drawn independently, as kind and name; empty or absent for the speaker
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
    """WER and CER of a set as fractions, and its counts of words and word errors.

    cer_longer: the CER over the longer of reference and hypothesis.
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
    """WER, CER and counts over the rows of one set. The CER is None if a row lacks counts of characters."""
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
    """The result of a set. loss: of the loss component, in nats, the mean over utterances; None if not finite."""

    null: ClassVar = ("loss",)

    loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The results of a run: summary.json. Times are in seconds, memory in bytes, rates are fractions.

    - seconds: wall-clock time by phase; phase_seconds: by phase, from the record of utilisation
    - launch_seconds: from the launcher's start to the end of the first step
    - metrics: the latest row of metrics.csv; until: a PlannedRun
    """

    null: ClassVar = ("best_validation_wer", "launch_seconds")

    id: str | None = None
    name: str | None = None
    sets: dict[str, SetResult]
    test_sets: list[str]
    best_validation_wer: float | None = None
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
    until: dict[str, object] | None = None
    metrics: dict[str, float] | None = None

    def value(self, set_: str, name: str) -> float | None:
        """A rate, loss or count of a set; None if the run did not record it."""
        value: float | None = getattr(self.sets.get(set_), name, None)
        return value


NO_SUMMARY = Summary(sets={}, test_sets=[])


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The hardware of a run.

    - cores: of the process; threads: of torch; native: target of the native library, none for PyTorch's operations,
      None in records older than the library
    - buses: a line per GPU; links: by pair of GPUs; both None without a GPU, and empty if nvidia-smi is absent or fails
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
    """The code of a run. commit, dirty_diff: from git, None outside a checkout; files: hashes of source files."""

    commit: str | None = None
    dirty_diff: str | None = None
    files: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Composed:
    """The config file from which Hydra composed the config, and the folder of -cd."""

    null: ClassVar = ("config_name", "config_dir")

    config_name: str | None
    config_dir: str | None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The machine, code and versions of a run: environment.json. started: UTC, ISO 8601.

    - composed: None for a config that was frozen before; derived: `derived_keys` of the config
    - resumed: the environments in which an interrupted run continued
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
        """The environment in which the run began, then the environments in which it continued."""
        return [self, *(self.resumed or [])]


@dataclass(frozen=True, kw_only=True)
class SetContent:
    """The content of a set of a corpus.

    sha256: over texts and audio; left_out: ids by reason; in_training: how many of its utterances, speakers and
    sentences are also in training.
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
    """The content of a run's corpus: data.json. training_counts: how often words of other sets occur in training."""

    fingerprint: str | None = None
    sets: dict[str, SetContent] = field(default_factory=dict)
    training_counts: dict[str, int] | None = None
    alphabet: str | None = None
    separation: str | None = None

    def trained_on(self, set_: str) -> str:
        """Describe how many speakers of a set are in training; "" if none are."""
        content = self.sets.get(set_, SetContent())
        if not (count := (content.in_training or {}).get("speakers")):
            return ""
        return f"{count}{f' of {content.speakers}' if content.speakers else ''} speakers of {set_} are in training"

    def hash(self, set_: str) -> str | None:
        """The hash of a set's texts and audio; None if not recorded."""
        return self.sets[set_].sha256 if set_ in self.sets else None


SYSTEM = "system"  # key of the system's name in the config of a record made from hypotheses

# `model` of a record if each arm is one system: a verdict is about these systems only
ONE_SYSTEM = "one system of each arm"

FINGERPRINT = "data.json"  # prefix of the keys for hashes of the data: data.json.train for the training set, and so on

BEHAVIOUR = "behaviour"  # key for the version of the code's behaviour that made a run


class ConfiguredRun(Protocol):
    """A run whose config is known, whether or not it has begun.

    - config: resolved; content: everything that can change the result, by dotted key
    - derived: keys that the config computes from others, each with its sources; None if unknown
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
    """Everything that a run left in its folder.

    - config: resolved; data: without sets if there is no data.json, as from W&B
    - metrics: rows of metrics.csv; utterances: empty for a run that diverged
    - model: the tested weights, <id of the run>/<file of the checkpoint>, "" if unknown; records with the same model
      differ only in their decoder and can be paired
    - searched: a search proposed this run, so it may have been chosen for its luck
    - diverged_at: the step, from 1, at which the loss was not finite; None for a finished run
    - place: among the runs that its sweep named, from 0; None if unknown
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
        """The recognised texts in the order of the utterances."""
        return [row["hypothesis"] for row in self.utterances]

    @cached_property
    def content(self) -> dict[str, object]:
        """Everything that can change the result: leaves of the config, hashes of the data, the code's behaviour.

        A record without a behaviour, as from W&B, has behaviour 1.
        """
        hashes = {f"{FINGERPRINT}.{name}": of.sha256 or json.dumps(asdict(of)) for name, of in self.data.sets.items()}
        behaviour = self.environment.behaviour
        return {**leaves(self.config), **hashes, BEHAVIOUR: 1 if behaviour is None else behaviour}

    @cached_property
    def validation_sets(self) -> list[str]:
        """The sets that steered training, the first one first, by the names in metrics.csv.

        For manifests and Kaldi's directories the config has paths instead of names.
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
        """The result of every set, counted over its utterances; without utterances, from the summary."""
        by_set: dict[str, list[UtteranceRow]] = {}
        for row in self.utterances:
            by_set.setdefault(row["set"], []).append(row)
        counted = {
            name: SetResult(**vars(rates(rows)), loss=self.summary.value(name, "loss")) for name, rows in by_set.items()
        }
        return {**self.summary.sets, **counted}

    def value(self, set_: str, name: str) -> float | None:
        """A rate, loss or count of a set; None if the run has none."""
        value: float | None = getattr(self.measured.get(set_), name, None)
        return value


UnfinishedState = Literal["failed", "interrupted", "running", "pruned", "missing", "damaged"]
"""failed: the machine or the code ended it; interrupted: a user did, or it died without a message; missing: it never
started; damaged: its files cannot be read.
"""


@dataclass(frozen=True)
class Unfinished:
    """A run without a result, with the reason in one line.

    config, overrides: from the run's folder or the frozen config of its arm, to assign it to an arm; None and empty if
    unreadable.
    """

    folder: Path
    state: UnfinishedState
    reason: str
    config: Config | None = None
    overrides: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Records:
    """All runs of some folders, each in exactly one of the three lists.

    - runs: the finished ones; diverged: ended by a loss that is not finite, which is a result, too; both in order of
      start
    - warnings: about the origin of the runs; scored: the texts that were scored, for systems given by their hypotheses
    """

    runs: list[Record]
    diverged: list[Record] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    scored: str = ""
