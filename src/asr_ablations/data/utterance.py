"""What one utterance and one batch of them are."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch


@dataclass(frozen=True)
class Utterance:
    """One spoken sentence; `offset` and `duration` in seconds within the file at `audio`.

    A corpus that lists an utterance without a duration gives infinity, to the file's end; read() makes it a number.
    content: a hash of the whole audio file; fault: why the utterance cannot be used, "<reason>: <what was found>",
    empty for a sound one.
    """

    id: str
    speaker: str
    audio: Path
    offset: float
    duration: float
    text: str
    content: str = ""
    fault: str = ""


@dataclass
class Batch:
    """B utterances, ragged: nothing is padded before it is on the model's device.

    audio: int16 samples of all utterances behind one another (sum of lengths,); lengths: samples (B,), kept on the
    CPU, where sizes can be read without a synchronisation; targets: label indices behind one another;
    target_lengths: labels (B,), CPU; ids, texts: B strings; features: float16 frames of all utterances behind one
    another (sum of frames, F), where they were computed beforehand and there is no audio.
    """

    audio: torch.Tensor
    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor
    ids: list[str]
    texts: list[str]
    features: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device, non_blocking: bool = True) -> "Batch":
        """The batch with audio and targets on `device`; the lengths stay on the CPU (CTC wants them there)."""
        return self._moved(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "Batch":
        return self._moved(torch.Tensor.pin_memory)

    def _moved(self, move: Callable[[torch.Tensor], torch.Tensor]) -> "Batch":
        features = None if self.features is None else move(self.features)
        return replace(self, audio=move(self.audio), targets=move(self.targets), features=features)

    def waveforms(self) -> torch.Tensor:
        """Samples in -1..1, padded with zeros: (B, S) float32 on the audio's device."""
        return _padded(self.audio.float()[:, None] / 32768, self.lengths)[..., 0]

    def padded_features(self, frames: torch.Tensor) -> torch.Tensor:
        """The features padded with zeros: (B, T, F) float32 on their device; frames: (B,)."""
        assert self.features is not None
        return _padded(self.features.float(), frames)

    def padding(self) -> float:
        """The share of the padded batch that is padding, 0..1."""
        return 1 - float(self.lengths.sum()) / max(1.0, float(self.lengths.max()) * len(self))


def _padded(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """(sum of lengths, F) → (B, longest, F); lengths (B,) on the CPU."""
    size = int(lengths.max()) if len(lengths) else 0
    valid = torch.arange(size, device=values.device) < lengths.to(values.device, non_blocking=True)[:, None]
    padded = values.new_zeros(*valid.shape, values.shape[1])
    return padded.masked_scatter_(valid[..., None], values)
