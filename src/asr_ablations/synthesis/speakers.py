"""Synthetic speakers: voice, way of speaking, room and microphone.

Every draw uses a numpy Generator seeded by the SHA-256 of a key, so it only depends on the key.
"""

import hashlib
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from asr_ablations import SAMPLE_RATE
from asr_ablations.synthesis.languages import load_language
from asr_ablations.synthesis.request import SPLITS

TRAIN_SHARE_OTHER = 0.4  # share of the kind "other" among training speakers

Range = tuple[float, float]
Item = TypeVar("Item")


WHOLE: dict[str, dict[str, tuple[int, int]]] = {
    "rate": {"clean": (140, 180), "other": (125, 215)},  # words per minute
    "pitch": {"clean": (35, 65), "other": (15, 85)},  # 0 to 99, 50 is the voice's default
    "pitch_range": {"clean": (35, 65), "other": (15, 90)},  # 0 (flat) to 99
    "word_gap": {"clean": (0, 2), "other": (0, 3)},  # 10 ms
}
"""Ranges of uniform draws of whole numbers by kind of speaker, which determine how difficult it is to recognise."""
CONTINUOUS: dict[str, dict[str, Range]] = {
    "signal_to_noise": {"clean": (20, 35), "other": (8, 20)},  # dB over the speech's mean power
    "noise_slope": {"clean": (0.5, 2.0), "other": (0.0, 1.5)},  # power ∝ frequency^-slope: 0 white, 1 pink, 2 brown
    "reverberation_time": {"clean": (0.05, 0.15), "other": (0.15, 0.40)},  # s until 60 dB down
    "direct_to_reverberant": {"clean": (12, 20), "other": (4, 12)},  # dB
    "peak": {"clean": (-12, -2), "other": (-20, -2)},  # dB of full scale
}
# Variation between utterances of a speaker: half the width of a uniform range.
UTTERANCE_RATE = 6  # words per minute
UTTERANCE_PITCH = 3
UTTERANCE_SIGNAL_TO_NOISE = 2  # dB
SILENCE = (0.10, 0.30)  # s, before and after the speech
SILENCE_THRESHOLD = -45  # dB of the peak

VARIANTS = (
    "f1 f2 f3 f4 f5 m1 m2 m3 m4 m5 m6 m7 m8 adam Alex Alicia Andrea Andy anika Annie announcer antonio "
    "AnxiousAndy aunty belinda benjamin boris caleb croak david Denis Diogo ed edward edward2 Gene Gene2 grandma "
    "grandpa gustave Henrique Hugo ian iven iven2 iven3 iven4 Jacky john kaukovalta klatt klatt2 klatt3 klatt4 "
    "klatt5 Lee linda marcelo Marco Mario max Michael michel miguel Mike mike2 Nguyen norbert pablo paul pedro "
    "quincy Reed RicishayMax RicishayMax2 RicishayMax3 rob robert sandro shelby steph steph2 Storm travis Tweaky "
    "victor zac"
)
"""espeak-ng's timbres without robots and whispers, and without klatt6 and steph3, which resemble adam and steph2."""
FEMALE_VARIANTS = "f1 f2 f3 f4 f5 Alicia Andrea Annie anika aunty belinda linda shelby steph steph2 grandma"


@dataclass(frozen=True)
class Speaker:
    """One speaker, in the units of WHOLE and CONTINUOUS."""

    number: int  # unique over the splits of a corpus
    kind: str  # clean or other
    voice: str  # espeak-ng's name, such as en-us+f3: an accent and a variant
    rate: int
    pitch: int
    pitch_range: int
    word_gap: int
    signal_to_noise: float
    noise_slope: float
    reverberation_time: float
    direct_to_reverberant: float
    peak: float
    room: int  # seed of the room's impulse response

    @property
    def sex(self) -> str:
        """F or M, by the sound of the voice."""
        return "F" if self.voice.partition("+")[2] in FEMALE_VARIANTS.split() else "M"


def generator(*key: object) -> np.random.Generator:
    """Return a generator seeded by the key alone, without hash(), which differs between processes."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:16], "big"))


def shuffled(items: list[Item], *key: object) -> list[Item]:
    """Return the items in an order that only depends on the key."""
    return [items[i] for i in generator(*key).permutation(len(items))]


def variants(seed: int, language: str, split: str) -> list[str]:
    """Return the variants of a split: 40 in test, 11 in dev, 36 in train, without overlap."""
    pool = shuffled(VARIANTS.split(), "variants", seed, language)
    return {"test": pool[:40], "dev": pool[40:51], "train": pool[51:]}[split.partition("-")[0]]


def draw_speaker(seed: int, language: str, split: str, index: int) -> Speaker:
    """Return speaker `index` of a split, which does not depend on the size of the corpus."""
    rng = generator("speaker", seed, language, split, index)
    # golden-ratio steps: any sequence of training speakers has the right share of both kinds
    is_other = index * 0.618034 % 1 >= 1 - TRAIN_SHARE_OTHER if split == "train" else split.endswith("other")
    kind = "other" if is_other else "clean"
    timbres, accents = variants(seed, language, split), load_language(language).accents[kind]
    accent = accents[(index + index // len(timbres)) % len(accents)]  # a repeated variant gets another accent

    whole = {name: int(rng.integers(ranges[kind][0], ranges[kind][1] + 1)) for name, ranges in WHOLE.items()}
    continuous = {name: float(rng.uniform(*ranges[kind])) for name, ranges in CONTINUOUS.items()}
    return Speaker(
        number=100 + len(SPLITS) * index + SPLITS.index(split),
        kind=kind,
        voice=f"{accent}+{timbres[index % len(timbres)]}",
        **whole,
        **continuous,  # type: ignore[arg-type]  # no whole number is left
        room=int(rng.integers(2**62)),
    )


def trim(waveform: np.ndarray, before: float, after: float) -> np.ndarray:
    """Trim or pad a waveform (S,) to `before` and `after` seconds of silence (zeros) around the speech."""
    loud = np.flatnonzero(np.abs(waveform) > 10 ** (SILENCE_THRESHOLD / 20) * np.abs(waveform).max())
    padding = (int(before * SAMPLE_RATE), int(after * SAMPLE_RATE))
    return np.pad(waveform[loud[0] : loud[-1] + 1], padding)


def coloured_noise(rng: np.random.Generator, samples: int, slope: float) -> np.ndarray:
    """Return Gaussian noise (samples,) of mean power 1, whose power is proportional to frequency^-slope."""
    size = 1 << (samples - 1).bit_length()  # a length with large prime factors takes ten times as long
    spectrum = np.fft.rfft(rng.standard_normal(size))
    frequencies = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 50)  # Hz; flat below, to avoid rumble
    noise = np.fft.irfft(spectrum * frequencies ** (-slope / 2), size)[:samples]
    return noise / np.sqrt(np.mean(noise**2))


def reverberate(waveform: np.ndarray, room: int, reverberation_time: float, direct_to_reverberant: float) -> np.ndarray:
    """Add a room's tail of exponentially decaying noise to a waveform (S,), without changing its length.

    room: the seed of the tail; reverberation_time: in s; direct_to_reverberant: in dB.
    """
    times = np.arange(int(reverberation_time * SAMPLE_RATE)) / SAMPLE_RATE
    tail = np.random.default_rng(room).standard_normal(len(times)) * 10 ** (-3 * times / reverberation_time)
    tail[: int(0.002 * SAMPLE_RATE)] = 0  # s until the first reflection
    tail *= 10 ** (-direct_to_reverberant / 20) / np.sqrt(np.sum(tail**2))
    tail[0] = 1
    size = 1 << (len(waveform) + len(tail)).bit_length()
    spectrum = np.fft.rfft(waveform, size) * np.fft.rfft(tail, size)
    return np.fft.irfft(spectrum, size)[: len(waveform)]


def record(speaker: Speaker, waveform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Turn dry speech (S,) at 16 kHz into a recording in this speaker's room: int16 (S',), never clipped."""
    speech = trim(waveform, *rng.uniform(*SILENCE, size=2))
    speech = reverberate(speech, speaker.room, speaker.reverberation_time, speaker.direct_to_reverberant)
    decibels = speaker.signal_to_noise + rng.uniform(-UTTERANCE_SIGNAL_TO_NOISE, UTTERANCE_SIGNAL_TO_NOISE)
    noise = coloured_noise(rng, len(speech), speaker.noise_slope)
    signal = speech + noise * np.sqrt(np.mean(speech**2)) * 10 ** (-decibels / 20)
    scale = 32767 * 10 ** (speaker.peak / 20) / np.abs(signal).max()
    return np.round(signal * scale).astype(np.int16)
