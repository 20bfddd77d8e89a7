"""Cross-entropy of frame labels from a trained model, as RETURNN's came from one (papers/002 §6)."""

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.components.loss.framewise import Framewise
from asr_ablations.data.dataset import Speech
from asr_ablations.data.utterance import Batch, Utterance
from asr_ablations.tools.errors import UsageError
from asr_ablations.tools.machine import one_at_a_time
from asr_ablations.tools.progress_bar import bar

log = logging.getLogger(__name__)


class Aligned(Framewise):
    """As Framewise, with the labels of a forced alignment: every letter lasts from where the best CTC path of the
    model of `run` first has it to where the next begins, but for one blank frame between two equal letters.

    The alignments, of the audio as it was recorded, are made when training begins and kept in the run's folder under
    alignments/. They are stretched evenly where this model has another number of frames for an utterance, or its
    audio is played at another speed. Raises UsageError for a run that is not there, and one of another alphabet.
    """

    def __init__(self, *, run: str | None) -> None:
        from asr_ablations.training.load import find  # it builds losses itself

        if run is None:
            raise UsageError("loss.run=null: expected a finished run's folder, or a .ckpt of it")
        self.folder, self.checkpoint = find(Path(run), "last")
        self.paths: dict[str, torch.Tensor] = {}

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        utterances = {_key(u.id, u.text): u for speech in sets.values() for u in speech.utterances}
        if utterances.keys() <= self.paths.keys():
            return
        alphabets = {(speech.alphabet.characters, speech.alphabet.separation) for speech in sets.values()}
        file = self.folder / "alignments" / f"{self._fingerprint(list(utterances.values()), alphabets)}.npz"
        file.parent.mkdir(exist_ok=True)
        with one_at_a_time(file.with_suffix(".lock"), f"waiting for the process that aligns with {self.checkpoint}"):
            if not file.exists():
                _write(file, dict(self._aligned(sets, device)))
        self.paths = _read(file)

    def labels(self, batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Linear ones before `prepare`, where a bare loop only measures the time."""
        if not self.paths:
            return super().labels(batch, lengths, frames)
        try:
            paths = [self.paths[_key(*one)] for one in zip(batch.ids, batch.texts, strict=True)]
        except KeyError as error:
            raise UsageError(f"loss=aligned: utterance {error.args[0].split()[0]} was not aligned") from error
        device = batch.targets.device
        there = torch.tensor([len(path) for path in paths])[:, None]
        place = torch.arange(frames) * there // lengths.cpu().clamp(min=1)[:, None]
        padded = pad_sequence(paths, batch_first=True)
        return padded.gather(1, place.minimum(there - 1)).to(device, torch.long, non_blocking=True)

    def _fingerprint(self, utterances: list[Utterance], alphabets: object) -> str:
        from asr_ablations.data.fingerprint import content_hash

        weights = hashlib.sha256(self.checkpoint.read_bytes()).hexdigest()
        return hashlib.sha256(f"{weights} {alphabets} {content_hash(utterances)}".encode()).hexdigest()[:16]

    def _aligned(self, sets: Mapping[str, Speech], device: torch.device) -> Iterator[tuple[str, np.ndarray]]:
        """One utterance at a time: a batch's padding would change the last bits, and where paths tie, the labels."""
        from asr_ablations.training.load import load

        with _undisturbed():
            _, task, alphabet = load(self.checkpoint)
        task.to(device)
        with bar("aligning", sum(len(speech) for speech in sets.values())) as advance:
            for speech in sets.values():
                if speech.alphabet.characters != alphabet.characters:
                    raise UsageError(
                        f"loss.run={self.checkpoint}: its alphabet is {alphabet.characters!r}, this one's "
                        f"{speech.alphabet.characters!r}"
                    )
                for utterance in speech.utterances:
                    samples = _samples(speech, utterance)
                    labels = alphabet.encode(utterance.text)
                    with torch.no_grad():
                        log_probs, lengths = task(_batch(samples, utterance).to(device))
                    path = frame_labels(log_probs[0, : int(lengths[0])].double().cpu().numpy(), labels)
                    yield _key(utterance.id, utterance.text), path
                    advance(1)


def frame_labels(log_probs: np.ndarray, labels: list[int]) -> np.ndarray:
    """The label (T,) of each frame of (T, V), in nats; no labels give blanks. Raises ValueError for too few frames."""
    from asr_ablations.metrics.ctc_alignment import letter_frames

    path = np.zeros(len(log_probs), dtype=np.int16)
    if not labels:
        return path
    begins = [int(frames[0]) for frames in letter_frames(log_probs, labels)]
    ends = [*begins[1:], len(path)]
    for number, (label, begin, end) in enumerate(zip(labels, begins, ends, strict=True)):
        again = number + 1 < len(labels) and labels[number + 1] == label
        path[begin if number else 0 : end - again] = label
    return path


@contextmanager
def _undisturbed() -> Iterator[None]:
    """What building another model leaves behind must not reach this run: random state and TF32."""
    products, others = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    with torch.random.fork_rng():
        yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = products, others


def _samples(speech: Speech, utterance: Utterance) -> np.ndarray:
    values, _ = speech.store.read(utterance)
    if values.ndim != 1:
        raise UsageError("cache=features: expected pcm or none with loss=aligned, whose other model needs the audio")
    return values


def _batch(samples: np.ndarray, utterance: Utterance) -> Batch:
    none = torch.zeros(0, dtype=torch.long)
    length = torch.tensor([len(samples)])
    return Batch(torch.from_numpy(samples), length, none, torch.zeros(1, dtype=torch.long), [utterance.id], [""])


def _key(id_: str, text: str) -> str:
    """Two sets may use an id for different utterances."""
    return f"{id_} {text}"


def _write(file: Path, paths: Mapping[str, np.ndarray]) -> None:
    temporary = file.with_name(f".{file.stem}.{os.getpid()}.npz")
    ends = np.cumsum([len(path) for path in paths.values()])
    np.savez_compressed(temporary, keys=np.array(list(paths)), ends=ends, labels=np.concatenate([*paths.values()]))
    temporary.replace(file)
    log.info("alignments in %s", file)


def _read(file: Path) -> dict[str, torch.Tensor]:
    with np.load(file) as kept:
        labels, ends = kept["labels"], kept["ends"]
        pieces = np.split(labels, ends[:-1])
        return {
            str(key): torch.from_numpy(path.astype(np.int64)) for key, path in zip(kept["keys"], pieces, strict=True)
        }
