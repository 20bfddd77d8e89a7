"""What one utterance and one batch of them are."""

from dataclasses import dataclass
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
    target_lengths: labels (B,), CPU; ids, texts: B strings.
    """

    audio: torch.Tensor
    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor
    ids: list[str]
    texts: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device, non_blocking: bool = True) -> "Batch":
        """The batch with audio and targets on `device`; the lengths stay on the CPU (CTC wants them there)."""
        audio = self.audio.to(device, non_blocking=non_blocking)
        targets = self.targets.to(device, non_blocking=non_blocking)
        return Batch(audio, self.lengths, targets, self.target_lengths, self.ids, self.texts)

    def pin_memory(self) -> "Batch":
        return Batch(
            self.audio.pin_memory(),
            self.lengths,
            self.targets.pin_memory(),
            self.target_lengths,
            self.ids,
            self.texts,
        )

    def waveforms(self) -> torch.Tensor:
        """Samples in -1..1, padded with zeros: (B, S) float32 on the audio's device."""
        lengths = self.lengths.to(self.audio.device, non_blocking=True)
        size = int(self.lengths.max()) if len(self) else 0
        valid = torch.arange(size, device=self.audio.device) < lengths[:, None]
        padded = torch.zeros(valid.shape, dtype=torch.float32, device=self.audio.device)
        return padded.masked_scatter_(valid, self.audio.float() / 32768)

    def padding(self) -> float:
        """The share of the padded batch that is padding, 0..1."""
        return 1 - float(self.lengths.sum()) / max(1.0, float(self.lengths.max()) * len(self))
