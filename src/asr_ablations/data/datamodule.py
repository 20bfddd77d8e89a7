"""The LightningDataModule, which makes batches from a corpus."""

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
from asr_ablations.data.dataset import Perturbation, Speech, SpeechLoader
from asr_ablations.data.fingerprint import describe_set, fingerprint, training_counts
from asr_ablations.data.held_out import InTraining, in_training, warnings_of
from asr_ablations.data.recording_cache import Cache
from asr_ablations.data.utterance_selection import UNUSED, Screened, screen
from asr_ablations.data.utterances import Utterances
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json

log = logging.getLogger(__name__)


class SpeechData(pl.LightningDataModule):
    """Batches of a corpus.

    output_frames: lengths in samples (B,) → the model's output frames (B,). Utterances with too few frames for CTC are
    left out of training. batches: at most this many batches from the start of each set; None for all.
    """

    pinned = False
    """Use pinned memory in the DataLoader; set from the Trainer's device."""

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
                "cache=features: expected pcm or none, because this augmentation changes waveforms and their features "
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

    def setup(self, stage: str | None = None) -> None:
        """Read every split once. Raises UsageError for missing data, and for faulty data unless these are skipped."""
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
        """Read one set: "train", which may join several splits, or a split. Raises UsageError like setup."""
        self._add(screen(self.corpus, self.alphabet, self.output_frames, [name]))

    def _add(self, sets: dict[str, Screened]) -> None:
        for name, screened in sets.items():
            used, readable = self._limit(screened.kept), _select_readable(screened)
            store = self.cache.open(name, readable if self.batches is None else used, self.workers)
            perturbation = self.perturbation if name == "train" else None
            self.sets[name] = Speech(used, self.alphabet, store, perturbation)
        self.screened |= sets

    def _limit(self, utterances: Utterances) -> Utterances:
        """Return the utterances of the first `batches` batches, at least one."""
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
                f"batch.seconds={self.batch_seconds}: expected {longest.duration:.1f} or more, the duration of the "
                f"longest utterance, {longest.id}"
            )

    @cached_property
    def fingerprint(self) -> str:
        """A hash that depends on the corpus's utterances, texts and audio, but not on the model or alphabet."""
        return fingerprint(self.corpus)

    def describe(self) -> Json:
        """Describe the data for the run's record: the sets by name, the alphabet, and how often each word of the other
        sets occurs in training (training_counts).
        """
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
        """Return the training position: the epoch, and the number of its batches done per rank."""
        if self.trainer is None:
            return dict(self._resumed)
        loop = self.trainer.fit_loop
        epochs, batches = (vars(progress.current) for progress in (loop.epoch_progress, loop.epoch_loop.batch_progress))
        # `processed` counts a batch after its optimiser step, and an epoch after the validation of its last batch;
        # between epochs the batch counter keeps its value from the end of the previous one
        within = epochs["started"] > epochs["processed"]
        return {"epoch": epochs["processed"], "batches": batches["processed"] if within else 0}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Continue from a position; Lightning calls this before it creates the training batches."""
        self._resumed = state_dict

    def val_dataloader(self) -> list[SpeechLoader]:
        """Return this rank's share of each validation set. If a rank's share would be empty, all ranks read the whole
        set, which gives the same means, because Lightning waits for the values of every rank.
        """
        rank, ranks = self.place()
        return [
            self.evaluation_dataloader(name, *((rank, ranks) if len(self.sets[name]) >= ranks else (0, 1)))
            for name in self.corpus.validation
        ]

    def place(self) -> tuple[int, int]:
        """Return (rank, number of ranks)."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def evaluation_dataloader(self, name: str, rank: int = 0, ranks: int = 1) -> SpeechLoader:
        """Return the batches of one split, or one rank's share of them. The longest utterances come first, so that a
        lack of memory shows at once.
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


def _select_readable(screened: Screened) -> Utterances:
    """Return the utterances to cache. All arms share the cache, so it includes those that only this model excludes."""
    unused = [u for reason in UNUSED for u in screened.left_out.get(reason, [])]
    readable = Utterances.join([screened.kept, Utterances.convert(unused)])
    ids = [*readable.strings("id")]
    return readable.take(np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64))
