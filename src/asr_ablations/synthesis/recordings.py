"""One synthetic speaker's recordings."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

UTTERANCES_PER_CHAPTER = 40
SECONDS_PER_UTTERANCE = 2.2  # the mean, roughly: for plans only


@dataclass(frozen=True)
class Job:
    """One speaker's recordings: until `seconds` of speech, or `utterances` where that is given."""

    folder: Path
    language: str
    words: int
    seed: int
    split: str
    index: int
    seconds: float
    utterances: int | None

    @property
    def expected_seconds(self) -> float:
        return self.utterances * SECONDS_PER_UTTERANCE if self.utterances else self.seconds

    @property
    def record(self) -> Path:
        """The file that says that this speaker is done."""
        return self.folder / ".speakers" / f"{self.split}-{self.index}.json"


@lru_cache(maxsize=1)
def _tools(language: str, words: int) -> tuple[Any, Any]:
    # Cost: torch takes over a second to import, so only those who speak import it.
    import torch
    import torchaudio

    from asr_ablations.synthesis import espeak, speakers
    from asr_ablations.synthesis.sentences import SentenceSampler

    # float64, so that rounding to 16 bits hides what processors round differently
    resample = torchaudio.transforms.Resample(espeak.SAMPLE_RATE, speakers.SAMPLE_RATE, dtype=torch.float64)
    return SentenceSampler(language, words), resample.double()


def utterances(job: Job) -> Iterator[tuple[str, Any]]:
    """The sentences of a speaker with their samples, int16 (S,) at 16 kHz, without end."""
    import torch

    from asr_ablations.synthesis import espeak
    from asr_ablations.synthesis import speakers as people

    sampler, resample = _tools(job.language, job.words)
    speaker = people.draw_speaker(job.seed, job.language, job.split, job.index)
    said: set[str] = set()
    for number in range(10**9):
        rng = people.generator("utterance", job.seed, job.language, job.words, job.split, job.index, number)
        sentence = sampler.draw(rng, job.split)
        for _ in range(20):  # a small vocabulary may not have enough sentences for none to come twice
            if sentence not in said:
                break
            sentence = sampler.draw(rng, job.split)
        said.add(sentence)
        rate = speaker.rate + int(rng.integers(-people.UTTERANCE_RATE, people.UTTERANCE_RATE + 1))
        pitch = speaker.pitch + int(rng.integers(-people.UTTERANCE_PITCH, people.UTTERANCE_PITCH + 1))
        raw = espeak.synthesize(sentence, speaker.voice, rate, pitch, speaker.pitch_range, speaker.word_gap)
        dry = resample(torch.from_numpy(raw / 32768)).numpy()
        yield sentence, people.record(speaker, dry, rng)


def generate_speaker(job: Job) -> float:
    """Write a speaker's folder at once, with the record that says it is done; gives its seconds."""
    import soundfile

    from asr_ablations.synthesis import speakers as people

    if job.record.exists():
        return float(json.loads(job.record.read_text())["seconds"])
    speaker = people.draw_speaker(job.seed, job.language, job.split, job.index)
    temporary = job.folder / ".partial" / f"{job.split}-{speaker.number}-{os.getpid()}"
    transcripts: dict[Path, list[str]] = {}
    seconds, words, audio_hash = 0.0, 0, hashlib.sha256()
    for number, (sentence, samples) in enumerate(utterances(job)):
        chapter = f"{1 + number // UTTERANCES_PER_CHAPTER}"
        chapter_folder = temporary / chapter
        if chapter_folder not in transcripts:
            chapter_folder.mkdir(parents=True)
            transcripts[chapter_folder] = []
        identifier = f"{speaker.number}-{chapter}-{number % UTTERANCES_PER_CHAPTER:04d}"
        soundfile.write(chapter_folder / f"{identifier}.flac", samples, people.SAMPLE_RATE, subtype="PCM_16")
        transcripts[chapter_folder].append(f"{identifier} {sentence.upper()}\n")
        audio_hash.update(samples.tobytes() + sentence.encode())
        seconds += len(samples) / people.SAMPLE_RATE
        words += len(sentence.split())
        enough = number + 1 >= job.utterances if job.utterances else seconds + SECONDS_PER_UTTERANCE / 2 >= job.seconds
        if enough:
            break
    for chapter_folder, lines in transcripts.items():
        path = chapter_folder / f"{speaker.number}-{chapter_folder.name}.trans.txt"
        path.write_text("".join(lines), encoding="utf-8")
    final = job.folder / job.split / str(speaker.number)
    final.parent.mkdir(exist_ok=True)
    shutil.rmtree(final, ignore_errors=True)  # left by a run that stopped before it wrote the record
    os.replace(temporary, final)
    done = {"seconds": round(seconds, 3), "utterances": number + 1, "words": words, "sha256": audio_hash.hexdigest()}
    write(job.record, done | {"sex": speaker.sex} | asdict(speaker))
    return seconds


def write(path: Path, content: dict[str, Any]) -> None:
    """JSON under a temporary name, renamed when it is whole."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)
