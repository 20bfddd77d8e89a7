"""The LightningDataModule: utterances → batches."""

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from asr_ablations.data.alphabet import Alphabet, shortest_path
from asr_ablations.data.batch_size import batch_size
from asr_ablations.data.librispeech import LibriSpeech
from asr_ablations.data.loader import SpeechLoader, explained
from asr_ablations.data.sampler import BatchOrder, Order
from asr_ablations.data.speech import Perturbation, Speech
from asr_ablations.data.utterance import Utterance
from asr_ablations.errors import UsageError

log = logging.getLogger(__name__)


class SpeechData(pl.LightningDataModule):
    """Batches of a corpus. `output_frames` maps lengths in samples (B,) to the model's output frames (B,): utterances
    with too few of them for their transcript cannot be learnt by CTC and are left out of training, by name.
    """

    def __init__(
        self,
        corpus: LibriSpeech,
        alphabet: Alphabet,
        order: Order,
        output_frames: Callable[[torch.Tensor], torch.Tensor],
        *,
        batch_count: int | None,
        batch_seconds: float | None,
        seed: int,
        augment_seed: int,
        workers: int,
        cache: Any,
        augment: Any,
    ) -> None:
        super().__init__()
        self.corpus, self.alphabet, self.order, self.output_frames = corpus, alphabet, order, output_frames
        self.batch_count, self.batch_seconds = batch_count, batch_seconds
        self.seed, self.workers, self.cache = seed, workers, cache
        if cache.holds_features and augment.changes_waveforms:
            raise UsageError(
                "cache=features: expected pcm or none with an augmentation of waveforms, whose features are other ones "
                "in every epoch"
            )
        self.perturbation = (
            Perturbation(augment.waveform, output_frames, augment_seed) if augment.changes_waveforms else None
        )
        self.left_out: list[str] = []
        self.sets: dict[str, Speech] = {}
        self._resumed = {"epoch": 0, "batches": 0}
        self._failure: BaseException | None = None

    def setup(self, stage: str | None = None) -> None:
        """Read every split once. Raises UsageError for missing data or foreign characters."""
        if self.sets:
            return
        for name in dict.fromkeys(["train", *self.corpus.validation, *self.corpus.test]):
            folders = self.corpus.train if name == "train" else [name]
            utterances = [u for folder in folders for u in self.corpus.read(folder)]
            self.alphabet.check(utterances)
            store = self.cache.open(name, utterances, self.workers)
            self.sets[name] = Speech(utterances, self.alphabet, store, self.perturbation if name == "train" else None)
        self._leave_out_infeasible()
        self._check_longest()

    def _leave_out_infeasible(self) -> None:
        train = self.sets["train"]
        frames = self.output_frames(torch.tensor([round(d * 16000) for d in train.durations])).tolist()
        short = {
            u.id
            for u, n in zip(train.utterances, frames, strict=True)
            if n < shortest_path(self.alphabet.encode(u.text))
        }
        if short:
            self.left_out = sorted(short)
            log.warning(
                "%d of %d training utterances have fewer output frames than CTC needs and are left out: %s%s",
                len(short), len(train), ", ".join(self.left_out[:5]), " …" if len(short) > 5 else "",
            )  # fmt: skip
            kept = [u for u in train.utterances if u.id not in short]
            self.sets["train"] = Speech(kept, self.alphabet, train.store, train.perturbation)
        if not len(self.sets["train"]):
            raise UsageError("no training utterance is left: each has fewer output frames than labels")

    def _check_longest(self) -> None:
        longest = max(self.sets["train"].utterances, key=lambda u: u.duration)
        if self.batch_seconds is not None and longest.duration > self.batch_seconds:
            raise UsageError(
                f"batch.seconds={self.batch_seconds}: expected {longest.duration:.1f} or more, what utterance "
                f"{longest.id} lasts"
            )

    @property
    def fingerprint(self) -> str:
        """Of everything that training and evaluation read."""
        told = {name: _describe(speech.utterances)["sha256"] for name, speech in self.sets.items()}
        return hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest()

    def resume(self, epoch: int, batches: int) -> None:
        """Go on after that many batches of an epoch."""
        self._resumed = {"epoch": epoch, "batches": batches}

    def describe(self) -> dict[str, Any]:
        """For the record: what each set holds, a hash of its utterances, and what was left out of training."""
        sets = {name: _describe(speech.utterances) for name, speech in self.sets.items()}
        return {"sets": sets, "left_out_of_training": self.left_out, "alphabet": self.alphabet.characters}

    def train_dataloader(self) -> SpeechLoader:
        rank, ranks = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        size = batch_size(self.batch_count, self.batch_seconds, ranks)
        order = BatchOrder(self.sets["train"].durations, size, self.order, self.seed, rank, ranks)
        order.resume(self._resumed["epoch"], self._resumed["batches"])
        return SpeechLoader(self.sets["train"], order, self.workers)

    def state_dict(self) -> dict[str, int]:
        """Where training stands: the epoch, and the batches of it that the weights have seen, on each rank."""
        if self.trainer is None:
            return dict(self._resumed)
        loop = self.trainer.fit_loop
        epochs, batches = (vars(progress.current) for progress in (loop.epoch_progress, loop.epoch_loop.batch_progress))
        # `processed` counts a batch from its optimiser's step on, an epoch from its last batch's validation on; between
        # two epochs the batch counter still stands at the end of the one before
        within = epochs["started"] > epochs["processed"]
        return {"epoch": epochs["processed"], "batches": batches["processed"] if within else 0}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on from there: Lightning calls this before it asks for the training batches."""
        self.resume(**state_dict)

    def on_exception(self, exception: BaseException) -> None:
        """Find out which utterance a worker died over, wherever in the loop torch noticed it, while the others live."""
        self._failure = explained(exception, self.sets["train"]) if self.sets else exception

    def explain(self, error: BaseException) -> BaseException:
        """What ended a fit, as an error that names the utterance where it was a worker's death."""
        return self._failure or error

    def val_dataloader(self) -> list[SpeechLoader]:
        return [self.evaluation_dataloader(name) for name in self.corpus.validation]

    def evaluation_dataloader(self, name: str) -> SpeechLoader:
        """One split, the longest utterances first, so that too little memory shows at once."""
        durations = self.sets[name].durations
        order, size = np.argsort(-durations, kind="stable"), batch_size(self.batch_count, self.batch_seconds, ranks=1)
        batches, begin = [], 0
        while begin < len(order):
            end = begin + size.count(float(durations[order[begin]]))
            batches.append(order[begin:end].tolist())
            begin = end
        return SpeechLoader(self.sets[name], batches, self.workers)  # type: ignore[arg-type]


def _describe(utterances: list[Utterance]) -> dict[str, Any]:
    lines = sorted(f"{u.id}\t{u.speaker}\t{u.offset}\t{u.duration}\t{u.text}" for u in utterances)
    return {
        "utterances": len(utterances),
        "hours": sum(u.duration for u in utterances) / 3600,
        "speakers": len({u.speaker for u in utterances}),
        "words": sum(len(u.text.split()) for u in utterances),
        "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest(),
    }
