"""Create synthetic speakers with random properties, and record their speech with espeak-ng in simulated rooms."""

import _ctypes
import ctypes
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import espeakng_loader
import numpy as np

from asr_ablations import SAMPLE_RATE
from asr_ablations.synthesis.languages import load_language
from asr_ablations.tools.signals import deferred

SPLITS = ("train", "dev-clean", "dev-other", "test-clean", "test-other")
TRAIN_SHARE_OTHER = 0.4  # share of training speakers whose kind is "other"

WHOLE: dict[str, dict[str, tuple[int, int]]] = {
    "rate": {"clean": (140, 180), "other": (125, 215)},  # words per minute
    "pitch": {"clean": (35, 65), "other": (15, 85)},  # 0 to 99; the default of every voice is 50
    "pitch_range": {"clean": (35, 65), "other": (15, 90)},  # 0 (flat) to 99
    "word_gap": {"clean": (0, 2), "other": (0, 3)},  # units of 10 ms
}
"""Ranges from which whole numbers are sampled uniformly. Speakers of the kind "other" are harder to recognise."""
CONTINUOUS: dict[str, dict[str, tuple[float, float]]] = {
    "signal_to_noise": {"clean": (20, 35), "other": (8, 20)},  # dB, relative to the mean power of the speech
    "noise_slope": {"clean": (0.5, 2.0), "other": (0.0, 1.5)},  # power ∝ frequency^-slope: 0 is white, 1 pink, 2 brown
    "reverberation_time": {
        "clean": (0.05, 0.15),
        "other": (0.15, 0.40),
    },  # seconds until the sound has decayed by 60 dB
    "direct_to_reverberant": {"clean": (12, 20), "other": (4, 12)},  # dB
    "peak": {"clean": (-12, -2), "other": (-20, -2)},  # dB relative to full scale
}
# Maximum differences between the properties of an utterance and of its speaker:
UTTERANCE_RATE = 6  # words per minute
UTTERANCE_PITCH = 3
UTTERANCE_SIGNAL_TO_NOISE = 2  # dB
SILENCE = (0.10, 0.30)  # shortest and longest silence before and after the speech, in seconds
SILENCE_THRESHOLD = -45  # dB relative to the peak; quieter samples count as silence

VARIANTS = (
    "f1 f2 f3 f4 f5 m1 m2 m3 m4 m5 m6 m7 m8 adam Alex Alicia Andrea Andy anika Annie announcer antonio "
    "AnxiousAndy aunty belinda benjamin boris caleb croak david Denis Diogo ed edward edward2 Gene Gene2 grandma "
    "grandpa gustave Henrique Hugo ian iven iven2 iven3 iven4 Jacky john kaukovalta klatt klatt2 klatt3 klatt4 "
    "klatt5 Lee linda marcelo Marco Mario max Michael michel miguel Mike mike2 Nguyen norbert pablo paul pedro "
    "quincy Reed RicishayMax RicishayMax2 RicishayMax3 rob robert sandro shelby steph steph2 Storm travis Tweaky "
    "victor zac"
)
"""Voice variants of espeak-ng, except robots, whispers, klatt6 (sounds like adam) and steph3 (sounds like steph2)."""
FEMALE_VARIANTS = "f1 f2 f3 f4 f5 Alicia Andrea Annie anika aunty belinda linda shelby steph steph2 grandma"


@dataclass(frozen=True)
class Speaker:
    """The properties of one speaker, in the units that WHOLE and CONTINUOUS state."""

    number: int  # unique among all splits of a corpus
    kind: str  # "clean" or "other"
    voice: str  # name in espeak-ng: an accent and a variant, such as en-us+f3
    rate: int
    pitch: int
    pitch_range: int
    word_gap: int
    signal_to_noise: float
    noise_slope: float
    reverberation_time: float
    direct_to_reverberant: float
    peak: float
    room: int  # seed for the impulse response of the room

    @property
    def sex(self) -> str:
        """F or M, according to the sound of the voice."""
        return "F" if self.voice.partition("+")[2] in FEMALE_VARIANTS.split() else "M"


def generator(*key: object) -> np.random.Generator:
    """Return a random generator seeded with the key's SHA-256, because Python's hash() differs between processes."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:16], "big"))


def variants(seed: int, language: str, split: str) -> list[str]:
    """Return the voice variants of a split: 40 for test, 11 for dev and 36 for train. No two splits share a variant."""
    names = VARIANTS.split()
    pool = [names[i] for i in generator("variants", seed, language).permutation(len(names))]
    return {"test": pool[:40], "dev": pool[40:51], "train": pool[51:]}[split.partition("-")[0]]


def draw_speaker(seed: int, language: str, split: str, index: int) -> Speaker:
    """Create the speaker with the given index in a split. The speaker does not depend on the size of the corpus."""
    rng = generator("speaker", seed, language, split, index)
    # with steps of the golden ratio, any range of training speakers has about the right share of each kind
    is_other = index * 0.618034 % 1 >= 1 - TRAIN_SHARE_OTHER if split == "train" else split.endswith("other")
    kind = "other" if is_other else "clean"
    timbres, accents = variants(seed, language, split), load_language(language).accents[kind]
    accent = accents[
        (index + index // len(timbres)) % len(accents)
    ]  # if a variant is used again, it gets another accent
    whole = {name: int(rng.integers(ranges[kind][0], ranges[kind][1] + 1)) for name, ranges in WHOLE.items()}
    continuous = {name: float(rng.uniform(*ranges[kind])) for name, ranges in CONTINUOUS.items()}
    return Speaker(
        number=100 + len(SPLITS) * index + SPLITS.index(split),
        kind=kind,
        voice=f"{accent}+{timbres[index % len(timbres)]}",
        **whole,
        **continuous,  # type: ignore[arg-type]  # mypy cannot tell that only float fields are left
        room=int(rng.integers(2**62)),
    )


ESPEAK_RATE = 22050  # sampling rate in Hz of all formant voices of espeak-ng

# constants from espeak-ng's speak_lib.h
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_PARAMETERS = {"rate": 1, "volume": 2, "pitch": 3, "pitch_range": 4, "word_gap": 7}
_RANDOM_SEED = 1

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


@contextmanager
def _fresh_library() -> Iterator[ctypes.CDLL]:
    # espeak-ng stores the phase of its flutter, noise and glottal waves in static variables. Only unloading the library
    # resets them, which takes about 2 ms per utterance. Otherwise the audio would depend on all earlier utterances.
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_Info.restype = ctypes.c_char_p
    data_path = espeakng_loader.get_data_path().encode()
    try:
        rate = library.espeak_Initialize(_AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path, _INITIALIZE_DONT_EXIT)
        if rate != ESPEAK_RATE:
            raise RuntimeError(f"espeak-ng did not start: sample rate {rate}, expected {ESPEAK_RATE}")
        yield library
    finally:
        library.espeak_Terminate()
        _ctypes.dlclose(library._handle)


def espeak_version() -> str:
    """Return the version of espeak-ng, such as "1.52.0"."""
    with _fresh_library() as library:
        return library.espeak_Info(None).decode()


def synthesize(text: str, voice: str, rate: int, pitch: int, pitch_range: int, word_gap: int = 0) -> np.ndarray:
    """Speak a text with espeak-ng. Return int16 samples (S,) at 22050 Hz that depend only on the arguments.

    - voice: language and variant, such as "en-us+f3"
    - rate: words per minute (80 to 450)
    - pitch, pitch_range: 0 to 99; the default of every voice is 50
    - word_gap: pause between words in units of 10 ms, at the default rate

    Raises a RuntimeError that quotes the text and the voice if espeak-ng fails or produces no sound.
    """
    chunks: list[bytes] = []

    def collect(samples: int | None, count: int, _events: int | None) -> int:
        if samples and count > 0:
            chunks.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = _CALLBACK(collect)  # a variable, because the object must outlive the synthesis
    values = {"rate": rate, "volume": 100, "pitch": pitch, "pitch_range": pitch_range, "word_gap": word_gap}
    encoded = text.encode()
    with deferred(), _fresh_library() as library:
        library.espeak_ng_SetRandSeed(ctypes.c_long(_RANDOM_SEED))
        library.espeak_SetSynthCallback(callback)
        status = library.espeak_SetVoiceByName(voice.encode())
        for name, number in _PARAMETERS.items():
            status = status or library.espeak_SetParameter(number, values[name], 0)
        status = status or library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, _CHARS_UTF8, None, None)
        status = status or library.espeak_Synchronize()
    if status or not chunks:
        raise RuntimeError(f"espeak-ng could not speak {text!r} with the voice {voice!r} (status {status})")
    return np.frombuffer(b"".join(chunks), dtype=np.int16)


def trim(waveform: np.ndarray, before: float, after: float) -> np.ndarray:
    """Cut off the silence around the speech in a waveform (S,), and add `before` and `after` seconds of zeros."""
    loud = np.flatnonzero(np.abs(waveform) > 10 ** (SILENCE_THRESHOLD / 20) * np.abs(waveform).max())
    padding = (int(before * SAMPLE_RATE), int(after * SAMPLE_RATE))
    return np.pad(waveform[loud[0] : loud[-1] + 1], padding)


def coloured_noise(rng: np.random.Generator, samples: int, slope: float) -> np.ndarray:
    """Return Gaussian noise (samples,) with mean power 1 and a power density proportional to frequency^-slope."""
    size = 1 << (samples - 1).bit_length()  # a power of two, because large prime factors make the FFT ten times slower
    spectrum = np.fft.rfft(rng.standard_normal(size))
    frequencies = np.maximum(np.fft.rfftfreq(size, 1 / SAMPLE_RATE), 50)  # Hz; constant below 50 Hz to avoid rumble
    noise = np.fft.irfft(spectrum * frequencies ** (-slope / 2), size)[:samples]
    return noise / np.sqrt(np.mean(noise**2))


def reverberate(waveform: np.ndarray, room: int, reverberation_time: float, direct_to_reverberant: float) -> np.ndarray:
    """Add reverberation, simulated with exponentially decaying noise, to a waveform (S,). room: seed of the noise."""
    times = np.arange(int(reverberation_time * SAMPLE_RATE)) / SAMPLE_RATE
    tail = np.random.default_rng(room).standard_normal(len(times)) * 10 ** (-3 * times / reverberation_time)
    tail[: int(0.002 * SAMPLE_RATE)] = 0  # the first reflection arrives after 2 ms
    tail *= 10 ** (-direct_to_reverberant / 20) / np.sqrt(np.sum(tail**2))
    tail[0] = 1
    size = 1 << (len(waveform) + len(tail)).bit_length()
    spectrum = np.fft.rfft(waveform, size) * np.fft.rfft(tail, size)
    return np.fft.irfft(spectrum, size)[: len(waveform)]


def record(speaker: Speaker, waveform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Record speech (S,) at 16 kHz in the speaker's simulated room. Return int16 samples (S',) without clipping."""
    speech = trim(waveform, *rng.uniform(*SILENCE, size=2))
    speech = reverberate(speech, speaker.room, speaker.reverberation_time, speaker.direct_to_reverberant)
    decibels = speaker.signal_to_noise + rng.uniform(-UTTERANCE_SIGNAL_TO_NOISE, UTTERANCE_SIGNAL_TO_NOISE)
    noise = coloured_noise(rng, len(speech), speaker.noise_slope)
    signal = speech + noise * np.sqrt(np.mean(speech**2)) * 10 ** (-decibels / 20)
    scale = 32767 * 10 ** (speaker.peak / 20) / np.abs(signal).max()
    return np.round(signal * scale).astype(np.int16)


@cache
def _resampler() -> Callable[[np.ndarray], np.ndarray]:
    import torch  # imported late, because it takes over a second
    from torchaudio.transforms import Resample

    # in float64, because rounding to 16 bits then hides differences between processors
    resample = Resample(ESPEAK_RATE, SAMPLE_RATE, dtype=torch.float64).double()
    return lambda waveform: resample(torch.from_numpy(waveform)).numpy()


def speak(speaker: Speaker, sentence: str, rng: np.random.Generator) -> np.ndarray:
    """Simulate a recording of a sentence that the speaker reads. Return int16 samples (S,) at 16 kHz."""
    rate = speaker.rate + int(rng.integers(-UTTERANCE_RATE, UTTERANCE_RATE + 1))
    pitch = speaker.pitch + int(rng.integers(-UTTERANCE_PITCH, UTTERANCE_PITCH + 1))
    raw = synthesize(sentence, speaker.voice, rate, pitch, speaker.pitch_range, speaker.word_gap)
    return record(speaker, _resampler()(raw / 32768), rng)
