"""The recordings of one synthetic speaker."""

import _ctypes
import ctypes
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import espeakng_loader

from asr_ablations import SAMPLE_RATE
from asr_ablations.synthesis.request import Request
from asr_ablations.tools.signals import deferred
from asr_verdicts.files import Json, named, write

if TYPE_CHECKING:
    import numpy as np
    from torchaudio.transforms import Resample

    from asr_ablations.synthesis.sentences import SentenceSampler


ESPEAK_RATE = 22050  # Hz, of every formant voice

# The names and numbers of espeak-ng's speak_lib.h.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_PARAMETERS = {"rate": 1, "volume": 2, "pitch": 3, "pitch_range": 4, "word_gap": 7}
_RANDOM_SEED = 1

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


@contextmanager
def _fresh_library() -> Iterator[ctypes.CDLL]:
    # espeak-ng stores the phase of its flutter, noise and glottal waves in static variables, which neither
    # espeak_Terminate nor espeak_Initialize resets: the audio would depend on everything spoken before in the process.
    # Only unloading the library resets them, which takes about 2 ms per utterance.
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


def version() -> str:
    """Return espeak-ng's version, such as "1.52.0"."""
    with _fresh_library() as library:
        return library.espeak_Info(None).decode()


def synthesize(text: str, voice: str, rate: int, pitch: int, pitch_range: int, word_gap: int = 0) -> "np.ndarray":
    """Return `text` as speech, int16 samples (S,) at 22050 Hz, which depend only on the arguments.

    - voice: language and variant, such as "en-us+f3"
    - rate: words per minute (80 to 450)
    - pitch, pitch_range: 0 to 99; 50 is the voice's default
    - word_gap: in units of 10 ms at the usual rate

    Raises RuntimeError with text and voice if espeak-ng fails or gives no sound.
    """
    chunks: list[bytes] = []

    def collect(samples: int | None, count: int, _events: int | None) -> int:
        if samples and count > 0:
            chunks.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = _CALLBACK(collect)  # must outlive the synthesis
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
    import numpy as np  # not needed if the corpus exists

    return np.frombuffer(b"".join(chunks), dtype=np.int16)


UTTERANCES_PER_CHAPTER = 40
SECONDS_PER_UTTERANCE = 2.2  # approximate mean, only for estimates


@dataclass(frozen=True)
class SpeakerJob:
    """One speaker's recordings: `utterances` if given, otherwise about `seconds` of speech.

    folder: the working folder of the split, which is deleted when the split is complete.
    """

    folder: Path
    request: Request
    split: str
    index: int
    seconds: float
    utterances: int | None

    @property
    def expected_seconds(self) -> float:
        return self.utterances * SECONDS_PER_UTTERANCE if self.utterances else self.seconds

    @property
    def record(self) -> Path:
        """The file that exists if this speaker is complete."""
        return self.folder / "records" / f"{self.index}.json"

    @property
    def speech(self) -> Path:
        """The folder of this split's complete speakers."""
        return self.folder / "speech"

    @property
    def partial(self) -> Path:
        """The folder of speakers that are being recorded."""
        return self.folder / "partial"

    def prepare_folders(self) -> None:
        """Make the folders of this job's split, and delete incomplete speakers of a stopped run."""
        shutil.rmtree(self.partial, ignore_errors=True)
        for part in (self.record.parent, self.speech, self.partial):
            part.mkdir(parents=True, exist_ok=True)


@lru_cache(maxsize=1)
def _tools(language: str, words: int) -> "tuple[SentenceSampler, Resample]":
    # torch takes over a second to import, so it is imported only for synthesis
    import torch
    from torchaudio.transforms import Resample

    from asr_ablations.synthesis.sentences import SentenceSampler

    # float64, so that rounding to 16 bits hides differences between processors
    resample = Resample(ESPEAK_RATE, SAMPLE_RATE, dtype=torch.float64)
    return SentenceSampler(language, words), resample.double()


def utterances(job: SpeakerJob) -> "Iterator[tuple[str, np.ndarray]]":
    """Yield the sentences of a speaker with their samples, int16 (S,) at 16 kHz, endlessly."""
    import torch

    from asr_ablations.synthesis import speakers as people

    request = job.request
    sampler, resample = _tools(request.language, request.words)
    speaker = people.draw_speaker(request.seed, request.language, job.split, job.index)
    spoken: set[str] = set()
    for number in range(10**9):
        rng = people.generator("utterance", request.seed, request.language, request.words, job.split, job.index, number)
        sentence = sampler.draw(rng, job.split)
        for _ in range(20):  # a small vocabulary may not have enough sentences to avoid every repetition
            if sentence not in spoken:
                break
            sentence = sampler.draw(rng, job.split)
        spoken.add(sentence)
        rate = speaker.rate + int(rng.integers(-people.UTTERANCE_RATE, people.UTTERANCE_RATE + 1))
        pitch = speaker.pitch + int(rng.integers(-people.UTTERANCE_PITCH, people.UTTERANCE_PITCH + 1))
        raw = synthesize(sentence, speaker.voice, rate, pitch, speaker.pitch_range, speaker.word_gap)
        dry = resample(torch.from_numpy(raw / 32768)).numpy()
        yield sentence, people.record(speaker, dry, rng)


def generate_speaker(job: SpeakerJob) -> None:
    """Write a speaker's folder, then the record that marks it as complete."""
    from asr_ablations.synthesis import speakers as people

    speaker = people.draw_speaker(job.request.seed, job.request.language, job.split, job.index)
    temporary = job.partial / f"{speaker.number}-{os.getpid()}"
    totals = _write_chapters(job, speaker.number, temporary)
    final = job.speech / str(speaker.number)
    shutil.rmtree(final, ignore_errors=True)  # from a run that stopped before it wrote the record
    os.replace(temporary, final)
    record = {**totals, "seconds": round(totals["seconds"], 3), "sex": speaker.sex, **asdict(speaker)}
    write(job.record, json.dumps(record, indent=1) + "\n")


def _write_chapters(job: SpeakerJob, speaker: int, folder: Path) -> Json:
    """Write a speaker's recordings and transcripts to <folder>/<chapter>; return totals, with a hash of all of them."""
    import soundfile

    transcripts: dict[Path, list[str]] = {}
    seconds, words, digest = 0.0, 0, hashlib.sha256()
    for number, (sentence, samples) in enumerate(utterances(job)):
        chapter = folder / f"{1 + number // UTTERANCES_PER_CHAPTER}"
        if chapter not in transcripts:
            chapter.mkdir(parents=True)
            transcripts[chapter] = []
        identifier = f"{speaker}-{chapter.name}-{number % UTTERANCES_PER_CHAPTER:04d}"
        with named(path := chapter / f"{identifier}.flac"):
            soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16")
        transcripts[chapter].append(f"{identifier} {sentence.upper()}\n")
        digest.update(samples.tobytes() + sentence.encode())
        seconds += len(samples) / SAMPLE_RATE
        words += len(sentence.split())
        is_last = number + 1 >= job.utterances if job.utterances else seconds + SECONDS_PER_UTTERANCE / 2 >= job.seconds
        if is_last:
            break
    for chapter, lines in transcripts.items():
        (chapter / f"{speaker}-{chapter.name}.trans.txt").write_text("".join(lines), encoding="utf-8")
    return {"seconds": seconds, "utterances": number + 1, "words": words, "sha256": digest.hexdigest()}
