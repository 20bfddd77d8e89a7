"""The types of a run's record: its JSON files are read into these and written from these (tools/typed_json.py)."""

from dataclasses import dataclass, field
from typing import ClassVar

from asr_verdicts.config import Config
from asr_verdicts.record import SetResult


@dataclass(frozen=True, kw_only=True)
class Status:
    """The progress of a run: status.json. diverged: the step, from 1, at which the loss was no finite number."""

    status: str
    pid: int | None = None
    host: str | None = None
    started: str | None = None
    seconds: float | None = None
    reason: str | None = None
    diverged: int | None = None


TRAINING, EVALUATING = "training", "evaluating"
"""Phases of a run in progress."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The latest epoch, loss and WER of a run in progress, and its phase: progress.json."""

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
class DecoderFile:
    """A file that a decoder reads."""

    name: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class TunedValues:
    """Values of a decoder that were tuned on a set."""

    set: str
    trials: int
    chosen: dict[str, object]


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """The result of a decoder on a trained run: <run>/evaluations/<name>.json, as far as comparisons read it."""

    name: str
    decoder: Config
    files: dict[str, DecoderFile]
    checkpoint: str
    sets: dict[str, SetResult]
    tuning: TunedValues | None
    test_sets: list[str]
    ablation: Config | None = None


@dataclass(frozen=True, kw_only=True)
class LogProbsRecord:
    """The record beside a file of log-probabilities. lengths: in frames, by utterance."""

    lengths: list[int]
    seconds: float
    device: str


@dataclass(frozen=True)
class AnyKeys:
    """An object of which nothing is demanded."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """The keys of a frozen config that its readers rely on."""

    overrides: list[str] = field(default_factory=list)
    ablation: Config | None = None


@dataclass(frozen=True, kw_only=True)
class Price:
    """The key `hardware` of a config."""

    price_per_hour: float | None = None


@dataclass(frozen=True, kw_only=True)
class Seeded(Declared):
    """The keys of a run's config that its readers rely on."""

    seed: int
    ranks: int | None = None
    data: Config | None = None
    batch: Config | None = None
    loss: Config | None = None
    decoder: Config | None = None
    hardware: Price | None = None


@dataclass(frozen=True, kw_only=True)
class ManifestArm:
    """An arm in a manifest."""

    id: str


@dataclass(frozen=True, kw_only=True)
class SweepManifest:
    """The keys of a sweep's manifest that its readers rely on."""

    arms: list[ManifestArm] = field(default_factory=list)
    launches: list[Config] = field(default_factory=list)
    ablation: Config | None = None
    space: Config | None = None
