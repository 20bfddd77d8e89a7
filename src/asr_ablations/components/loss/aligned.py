"""Cross-entropy with frame labels from a trained model, as in RETURNN's experiment (Doetsch2016 §6)."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.components.loss.framewise import Framewise
from asr_ablations.data.batch import Batch
from asr_ablations.data.datamodule import Speech
from asr_ablations.data.description import content_hash
from asr_ablations.data.utterances import Utterance
from asr_ablations.data.word_times import label_frames
from asr_ablations.runs.identity import sha256_of
from asr_ablations.tools.content_keys import content_key, hash_classes, library_versions
from asr_ablations.tools.machine import one_at_a_time
from asr_ablations.training.trained_model import find, load_run
from asr_verdicts.errors import UsageError
from asr_verdicts.files import whole_file
from asr_verdicts.terminal import bar

log = logging.getLogger(__name__)


class Aligned(Framewise):
    """Computes the framewise loss with labels from a forced alignment. run: folder or .ckpt of the aligning run

    Each label covers the frames from its first frame on the best CTC path up to the first frame of the next label. The
    first label also covers all earlier frames. A blank replaces the last frame of a label if the next label is equal.

    The audio is aligned without augmentation before training begins, and the alignments are stored in the subfolder
    alignments of the aligning run's folder. They are stretched evenly if the new model has a different frame rate, or
    if augmentation changes the speed. Raises UsageError if the aligning run does not exist or has a different alphabet.
    """

    def __init__(self, *, run: str | None, reduction: str) -> None:
        super().__init__(reduction=reduction)
        if not run or not isinstance(run, str):
            raise UsageError(f"loss.run={'null' if run is None else run}: expected a finished run's folder, or a .ckpt")
        try:
            self.folder, self.checkpoint = find(Path(run), "last")
        except UsageError as error:
            raise UsageError(f"loss.run={run}: {error}") from error
        self.paths: dict[str, torch.Tensor] = {}

    def prepare(self, sets: Mapping[str, Speech], device: torch.device) -> None:
        utterances = {_key(u.id, u.text): u for speech in sets.values() for u in speech.utterances}
        if utterances.keys() <= self.paths.keys():
            return
        alphabets = {(speech.alphabet.key, speech.alphabet.separation) for speech in sets.values()}
        file = self.folder / "alignments" / f"{self._cache_key(list(utterances.values()), alphabets)}.npz"
        file.parent.mkdir(exist_ok=True)
        with one_at_a_time(file.with_suffix(".lock"), f"waiting for a process that is aligning with {self.checkpoint}"):
            if not file.exists():
                _write(file, dict(self._align(sets, device)))
        self.paths = _read(file)

    def _cache_key(self, utterances: list[Utterance], alphabets: Collection[tuple[str, str]]) -> str:
        """Return a hash over everything that affects the alignments."""
        return content_key(
            teacher=sha256_of(str(self.checkpoint)),
            alphabets=sorted(alphabets),
            utterances=content_hash(utterances),
            sources=hash_classes([Aligned]),
            versions=library_versions(),
        )

    def labels(self, batch: Batch, lengths: torch.Tensor, frames: int) -> torch.Tensor:
        """Return aligned labels, or evenly spread labels if `prepare` was not called, as in speed benchmarks."""
        if not self.paths:
            return super().labels(batch, lengths, frames)
        paths = [self.paths[_key(id_, text)] for id_, text in zip(batch.ids, batch.texts, strict=True)]
        device = batch.targets.device
        path_lengths = torch.tensor([len(path) for path in paths])[:, None]
        position = torch.arange(frames) * path_lengths // lengths.cpu().clamp(min=1)[:, None]
        padded = pad_sequence(paths, batch_first=True)
        return padded.gather(1, position.minimum(path_lengths - 1)).to(device, torch.long, non_blocking=True)

    def _align(self, sets: Mapping[str, Speech], device: torch.device) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the key and the labels (T,) of each utterance.

        Utterances are aligned one at a time. In a batch, padding would change the last bits of outputs, which decide
        between equally likely paths.
        """
        with _preserve_state():
            task = load_run(self.checkpoint).task
            alphabet = task.alphabet
        task.to(device)
        with bar("aligning", sum(len(speech) for speech in sets.values())) as advance:
            for speech in sets.values():
                if speech.alphabet.key != alphabet.key:
                    raise UsageError(
                        f"loss.run={self.checkpoint}: its alphabet is {alphabet.key!r}, but this run's is "
                        f"{speech.alphabet.key!r}"
                    )
                for utterance in speech.utterances:
                    samples, _ = speech.store.read(utterance)
                    if samples.ndim != 1:
                        raise UsageError("cache=features: expected pcm or none, because loss=aligned needs audio")
                    no_labels, none = torch.zeros(0, dtype=torch.long), torch.zeros(1, dtype=torch.long)
                    audio, length = torch.from_numpy(samples), torch.tensor([len(samples)])
                    batch = Batch(audio, length, no_labels, none, [utterance.id], [""])
                    with torch.no_grad():
                        log_probs, lengths = task(batch.to(device))
                    outputs = log_probs[0, : int(lengths[0])].double().cpu().numpy()
                    labels = frame_labels(outputs, alphabet.encode(utterance.text))
                    yield _key(utterance.id, utterance.text), labels
                    advance(1)


def frame_labels(log_probs: np.ndarray, labels: list[int]) -> np.ndarray:
    """Align labels to the frames of log-probabilities (T, V) in nats. Returns the label of each frame (T,).

    If `labels` is empty, all frames are blanks. Raises ValueError if there are too few frames.
    """
    path = np.zeros(len(log_probs), dtype=np.int16)
    if not labels:
        return path
    begins = [int(frames[0]) for frames in label_frames(log_probs, labels)]
    ends = [*begins[1:], len(path)]
    for number, (label, begin, end) in enumerate(zip(labels, begins, ends, strict=True)):
        repeated = number + 1 < len(labels) and labels[number + 1] == label
        path[begin if number else 0 : end - repeated] = label
    return path


@contextmanager
def _preserve_state() -> Iterator[None]:
    """Restore the random state and TF32 settings at the end of the context, because loading a run changes them."""
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    with torch.random.fork_rng():
        yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn


def _key(id_: str, text: str) -> str:
    """Return the key of an utterance in an alignment file. It includes the transcript, because sets may share ids."""
    return f"{id_} {text}"


def _write(file: Path, paths: Mapping[str, np.ndarray]) -> None:
    ends = np.cumsum([len(path) for path in paths.values()])
    with whole_file(file, ".npz") as temporary:
        np.savez_compressed(temporary, keys=np.array(list(paths)), ends=ends, labels=np.concatenate([*paths.values()]))
    log.info("stored alignments in %s", file)


def _read(file: Path) -> dict[str, torch.Tensor]:
    with np.load(file) as content:
        pieces = torch.from_numpy(content["labels"].astype(np.int64)).tensor_split(
            torch.from_numpy(content["ends"])[:-1]
        )
        return dict(zip(map(str, content["keys"]), pieces, strict=True))
