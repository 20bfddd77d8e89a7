"""The LightningDataModule: utterances → batches."""

import logging
from collections.abc import Callable
from functools import cached_property

import numpy as np
import pytorch_lightning as pl
import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.batch import Augmentation, batch_size
from asr_ablations.data.batch_order import BatchOrder, Order
from asr_ablations.data.corpus import Corpus
from asr_ablations.data.dataset import Perturbation, Speech, SpeechLoader, explained
from asr_ablations.data.fingerprint import DataDescription, describe_set, fingerprint, training_counts
from asr_ablations.data.held_out import InTraining, in_training, warnings_of
from asr_ablations.data.recording_cache import Cache
from asr_ablations.data.utterance_selection import UNUSED, Screened, screen
from asr_ablations.data.utterances import Utterances
from asr_verdicts.errors import UsageError

log = logging.getLogger(__name__)


class SpeechData(pl.LightningDataModule):
    """Batches of a corpus. `output_frames` maps lengths in samples (B,) to the model's output frames (B,): CTC cannot
    learn utterances with too few frames for their transcript, so they are left out of training, by name.

    batches: how many of each set there are at the most, of its first utterances; None for all.
    """

    pinned = False
    """True if batches are put where a GPU fetches them while it computes: the Trainer's device decides."""

    def __init__(
        self,
        corpus: Corpus,
        alphabet: Alphabet,
        order: Order,
        output_frames: Callable[[torch.Tensor], torch.Tensor],
        *,
        batch_count: int | None,
        batch_seconds: float | None,
        seed: int,
        augment_seed: int,
        workers: int,
        cache: Cache,
        augment: Augmentation,
        batches: int | None = None,
    ) -> None:
        super().__init__()
        self.corpus, self.alphabet, self.order, self.output_frames = corpus, alphabet, order, output_frames
        self.batch_count, self.batch_seconds = batch_count, batch_seconds
        self.seed, self.workers, self.cache, self.batches = seed, workers, cache, batches
        if cache.holds_features and augment.changes_waveforms:
            raise UsageError(
                "cache=features: expected pcm or none with an augmentation of waveforms, whose features differ "
                "in every epoch"
            )
        self.perturbation = (
            Perturbation(augment.waveform, output_frames, augment_seed) if augment.changes_waveforms else None
        )
        self.left_out: list[str] = []
        self.sets: dict[str, Speech] = {}
        self.screened: dict[str, Screened] = {}
        self.in_training: dict[str, InTraining] = {}
        self._resumed = {"epoch": 0, "batches": 0}
        self._failure: BaseException | None = None

    def setup(self, stage: str | None = None) -> None:
        """Read every split once. Raises UsageError for missing data, and for bad data that are not to be skipped."""
        if self.trainer is not None:
            self.pinned = self.trainer.strategy.root_device.type == "cuda"
        if self.sets:
            return
        self._add(screen(self.corpus, self.alphabet, self.output_frames))
        used = {name: screened.kept for name, screened in self.screened.items()}
        held_out = dict.fromkeys([*self.corpus.validation, *self.corpus.test])
        self.in_training = {name: in_training(used[name], used["train"]) for name in held_out}
        if not self.place()[0]:
            for warning in warnings_of(used, self.in_training, self.corpus):
                log.warning(warning)
        self.left_out = sorted(u.id for group in self.screened["train"].left_out.values() for u in group)
        self._check_longest()

    def read(self, name: str) -> None:
        """Read one set alone: "train", which may be several splits, or a split. Raises UsageError as setup."""
        self._add(screen(self.corpus, self.alphabet, self.output_frames, [name]))

    def _add(self, sets: dict[str, Screened]) -> None:
        for name, screened in sets.items():
            used, readable = self._few(screened.kept), _readable(screened)
            store = self.cache.open(name, readable if self.batches is None else used, self.workers)
            perturbation = self.perturbation if name == "train" else None
            self.sets[name] = Speech(used, self.alphabet, store, perturbation)
        self.screened |= sets

    def _few(self, utterances: Utterances) -> Utterances:
        """As many of the first utterances as `batches` batches hold, one at least."""
        if self.batches is None:
            return utterances
        if self.batch_seconds is None:
            return utterances[: self.batches * (self.batch_count or 1)]
        ends = np.cumsum(utterances.column("duration"))
        return utterances[: max(1, int(np.searchsorted(ends, self.batches * self.batch_seconds, side="right")))]

    def _check_longest(self) -> None:
        longest = self.sets["train"].utterances[int(np.argmax(self.sets["train"].durations))]
        if self.batch_seconds is not None and longest.duration > self.batch_seconds:
            raise UsageError(
                f"batch.seconds={self.batch_seconds}: expected {longest.duration:.1f} or more, the duration of "
                f"utterance {longest.id}"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Hash that changes with the utterances, texts and audio of the corpus, not with the model or its alphabet."""
        return fingerprint(self.corpus)

    def resume(self, epoch: int, batches: int) -> None:
        """Continue after `batches` batches of an epoch."""
        self._resumed = {"epoch": epoch, "batches": batches}

    def describe(self) -> DataDescription:
        """Describe the data for the run's record: content and hash of each set, and what was left out, by reason."""
        return {
            "fingerprint": self.fingerprint,
            "sets": {
                name: describe_set(screened, self.in_training.get(name)) for name, screened in self.screened.items()
            },
            "training_counts": training_counts(
                self.screened["train"].kept,
                [screened.kept for name, screened in self.screened.items() if name != "train"],
            ),
            "alphabet": self.alphabet.characters,
            "separation": self.alphabet.separation,
        }

    def train_dataloader(self) -> SpeechLoader:
        rank, ranks = self.place()
        size = batch_size(self.batch_count, self.batch_seconds, ranks)
        order = BatchOrder(self.sets["train"].durations, size, self.order, self.seed, rank, ranks)
        order.resume(self._resumed["epoch"], self._resumed["batches"])
        return SpeechLoader(self.sets["train"], order, self.workers, pinned=self.pinned)

    def state_dict(self) -> dict[str, int]:
        """Return the position of the training: the epoch, and how many of its batches were trained on, per rank."""
        if self.trainer is None:
            return dict(self._resumed)
        loop = self.trainer.fit_loop
        epochs, batches = (vars(progress.current) for progress in (loop.epoch_progress, loop.epoch_loop.batch_progress))
        # `processed` counts a batch from its optimiser's step on, an epoch from its last batch's validation on; between
        # two epochs the batch counter still has its value from the end of the previous one
        within = epochs["started"] > epochs["processed"]
        return {"epoch": epochs["processed"], "batches": batches["processed"] if within else 0}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Continue from a position: Lightning calls this before it creates the training batches."""
        self.resume(**state_dict)

    def on_exception(self, exception: BaseException) -> None:
        """Find the utterance that a worker died over, wherever in the loop torch noticed it, while the others live."""
        self._failure = explained(exception, self.sets["train"]) if self.sets else exception

    def explain(self, error: BaseException) -> BaseException:
        """Return the error that ended a fit; if a worker died, an error that names its utterance."""
        return self._failure or error

    def val_dataloader(self) -> list[SpeechLoader]:
        return [self._validation_dataloader(name) for name in self.corpus.validation]

    def _validation_dataloader(self, name: str) -> SpeechLoader:
        """This rank's share. Where some would have none, all take the whole set, whose means are the same: Lightning
        waits for the figures of every rank.
        """
        rank, ranks = self.place()
        return self.evaluation_dataloader(name, *((rank, ranks) if len(self.sets[name]) >= ranks else (0, 1)))

    def place(self) -> tuple[int, int]:
        """Return the number of this rank and how many there are."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def evaluation_dataloader(self, name: str, rank: int = 0, ranks: int = 1) -> SpeechLoader:
        """Return the batches of one split, the longest utterances first, so that too little memory shows at once: those
        of one of several ranks, among which every utterance comes once.
        """
        durations = self.sets[name].durations
        order = np.argsort(-durations, kind="stable")[rank::ranks]
        size = batch_size(self.batch_count, self.batch_seconds, ranks=1)
        batches, begin = [], 0
        while begin < len(order):
            end = begin + size.count(float(durations[order[begin]]))
            batches.append(order[begin:end].tolist())
            begin = end
        return SpeechLoader(self.sets[name], batches, self.workers, pinned=self.pinned)


def _readable(screened: Screened) -> Utterances:
    """Return the utterances for a cache, with those that this model or a duration leaves out: all arms share it."""
    unused = [u for reason in UNUSED for u in screened.left_out.get(reason, [])]
    readable = Utterances.joined([screened.kept, Utterances.of(unused)])
    ids = [*readable.strings("id")]
    return readable.take(np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64))
