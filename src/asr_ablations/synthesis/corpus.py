"""Generate the built-in corpus: synthetic speakers read random sentences. Files follow LibriSpeech's layout."""

import hashlib
import itertools
import json
import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soundfile

from asr_ablations import SAMPLE_RATE
from asr_ablations.synthesis.sentences import SentenceSampler, vocabulary
from asr_ablations.synthesis.speakers import draw_speaker, espeak_version, generator, speak
from asr_ablations.tools.checks import number, whole
from asr_ablations.tools.content_keys import content_key, hash_files, library_versions
from asr_ablations.tools.files import read_json
from asr_ablations.tools.machine import cores, one_at_a_time
from asr_ablations.tools.signals import end_with, start_of
from asr_verdicts.files import named, write
from asr_verdicts.terminal import bar

MOST = 100_000  # upper limit on the hours of training audio, and on each number of speakers and sentences
SPEAKERS = "SPEAKERS.TXT"  # a file in each split, with one line per speaker
SPEED = 200  # approximate seconds of speech that one core generates per second
WORTH_PROCESSES = 5.0  # seconds of work below which starting processes costs more time than it saves
# The number of training speakers grows with the square root of the hours: 160 with 45 seconds each for 2 hours,
# 1,100 with 5 minutes each for 100 hours.
BASE_HOURS, BASE_TRAIN_SPEAKERS = 0.6, 88
UTTERANCES_PER_CHAPTER = 40
SECONDS_PER_UTTERANCE = 2.2  # approximate mean, used only for estimates


@cache
def hash_generator() -> str:
    """Return a hash of all that decides the files of a request: this package's source, espeak-ng, and libraries."""
    folder = Path(__file__).parent
    files = sorted([*folder.rglob("*.py"), *folder.rglob("*.yaml")])
    return content_key(8, source=hash_files(files, folder), espeak=espeak_version(), versions=library_versions())


@dataclass(frozen=True)
class Request:
    """A request for a corpus. Language, words and seed determine speakers and sentences; the rest set the size.

    - language: code of a module in synthesis/languages
    - words: size of the vocabulary
    - hours: hours of training audio
    - validation_speakers, test_speakers: number of speakers in each dev or test split
    - validation_sentences, test_sentences: number of sentences per speaker in each dev or test split

    Raises UsageError for values out of range.
    """

    language: str
    words: int
    seed: int
    hours: float
    validation_speakers: int
    validation_sentences: int
    test_speakers: int
    test_sentences: int

    def __post_init__(self) -> None:
        number("data.hours", self.hours, above=0, most=MOST)
        whole("data.corpus_seed", self.seed, 0)
        whole("data.words", self.words, 1)
        for name in ("validation_speakers", "validation_sentences", "test_speakers", "test_sentences"):
            whole(f"data.{name}", getattr(self, name), least=1, most=MOST)

    def evaluation(self, split: str) -> tuple[int, int]:
        """Return (number of speakers, sentences per speaker) of a dev or test split."""
        if split.startswith("dev"):
            return self.validation_speakers, self.validation_sentences
        return self.test_speakers, self.test_sentences

    def corpus(self, root: Path) -> Path:
        """Return the folder that corpora of any size share if language, vocabulary, seed and generator are the same."""
        return root / f"{self.language}-{self.words}words-seed{self.seed}-{hash_generator()}"

    def folder(self, root: Path, split: str) -> Path:
        """Return a split's folder. Requests that differ only in the sizes of other splits share this folder."""
        speakers, sentences = self.evaluation(split)
        size = f"{self.hours:g}h" if split == "train" else f"{speakers}x{sentences}"
        return self.corpus(root) / f"{split}-{size}"


@dataclass(frozen=True)
class SpeakerJob:
    """The job of generating one speaker: `utterances` recordings, or about `seconds` of speech if that is None."""

    folder: Path  # working folder of the split, deleted when the split is complete
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
        """File that exists if this speaker is complete."""
        return self.folder / "records" / f"{self.index}.json"

    @property
    def speech(self) -> Path:
        """Folder for all complete speakers of the split."""
        return self.folder / "speech"

    @property
    def partial(self) -> Path:
        """Folder for speakers that are still being generated."""
        return self.folder / "partial"

    def prepare_folders(self) -> None:
        """Create the split's working folders, and delete incomplete speakers that an interrupted run left behind."""
        shutil.rmtree(self.partial, ignore_errors=True)
        for part in (self.record.parent, self.speech, self.partial):
            part.mkdir(parents=True, exist_ok=True)


@lru_cache(maxsize=1)
def _sampler(language: str, words: int) -> SentenceSampler:
    return SentenceSampler(language, words)


def utterances(job: SpeakerJob) -> Iterator[tuple[str, np.ndarray]]:
    """Yield an endless series of sentences of the speaker of `job`, with their int16 samples (S,) at 16 kHz."""
    request = job.request
    sampler = _sampler(request.language, request.words)
    speaker = draw_speaker(request.seed, request.language, job.split, job.index)
    spoken: set[str] = set()
    for index in itertools.count():
        rng = generator("utterance", request.seed, request.language, request.words, job.split, job.index, index)
        sentence = sampler.draw(rng, job.split)
        for _ in range(20):  # a limited number of attempts, because a small vocabulary may have too few sentences
            if sentence not in spoken:
                break
            sentence = sampler.draw(rng, job.split)
        spoken.add(sentence)
        yield sentence, speak(speaker, sentence, rng)


def generate_speaker(job: SpeakerJob) -> None:
    """Write a speaker's recordings and transcripts, and finally the record that marks the speaker as complete."""
    speaker = draw_speaker(job.request.seed, job.request.language, job.split, job.index)
    folder = job.partial / f"{speaker.number}-{os.getpid()}"
    transcripts: dict[Path, list[str]] = {}
    seconds, words, digest = 0.0, 0, hashlib.sha256()
    for index, (sentence, samples) in enumerate(utterances(job)):
        chapter = folder / f"{1 + index // UTTERANCES_PER_CHAPTER}"
        if chapter not in transcripts:
            chapter.mkdir(parents=True)
            transcripts[chapter] = []
        identifier = f"{speaker.number}-{chapter.name}-{index % UTTERANCES_PER_CHAPTER:04d}"
        with named(path := chapter / f"{identifier}.flac"):
            soundfile.write(path, samples, SAMPLE_RATE, subtype="PCM_16")
        transcripts[chapter].append(f"{identifier} {sentence.upper()}\n")
        digest.update(samples.tobytes() + sentence.encode())
        seconds += len(samples) / SAMPLE_RATE
        words += len(sentence.split())
        is_last = index + 1 >= job.utterances if job.utterances else seconds + SECONDS_PER_UTTERANCE / 2 >= job.seconds
        if is_last:
            break
    for chapter, lines in transcripts.items():
        (chapter / f"{speaker.number}-{chapter.name}.trans.txt").write_text("".join(lines), encoding="utf-8")
    final = job.speech / str(speaker.number)
    shutil.rmtree(final, ignore_errors=True)  # left by a run that stopped before it wrote the record
    os.replace(folder, final)
    totals = {"seconds": round(seconds, 3), "utterances": index + 1, "words": words, "sha256": digest.hexdigest()}
    write(job.record, json.dumps({**totals, "sex": speaker.sex, **asdict(speaker)}, indent=1) + "\n")


def generate_speakers(jobs: list[SpeakerJob], title: str) -> None:
    """Generate all speakers that are not complete yet, in one process per core if that saves time."""
    open_jobs = [job for job in jobs if not job.record.exists()]
    expected = sum(job.expected_seconds for job in open_jobs)
    processes = min(cores(), len(open_jobs))
    print(title, file=sys.stderr, flush=True)
    total = sum(job.expected_seconds for job in jobs)
    with bar(title, total) as advance:
        advance(total - expected)
        if processes > 1 and expected / SPEED >= WORTH_PROCESSES:
            _generate_in_processes(open_jobs, advance, processes)
            return
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for job in open_jobs:
                generate_speaker(job)
                advance(job.expected_seconds)
        finally:
            torch.set_num_threads(threads)


def _generate_in_processes(jobs: list[SpeakerJob], advance: Callable[[float], None], processes: int) -> None:
    # processes are spawned, because forking would break threads or CUDA if the parent uses them
    parent = os.getpid(), start_of(os.getpid())
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_worker, initargs=parent)
    try:
        futures = {pool.submit(generate_speaker, job): job for job in jobs}
        for future in as_completed(futures):
            future.result()
            advance(futures[future].expected_seconds)
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker(parent: int, started: float) -> None:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # because the parent stops its workers after Ctrl-C
    end_with(parent, started)


def generate(root: Path, request: Request, splits: Sequence[str]) -> None:
    """Generate the splits that do not exist under `root`. Continue the work of an interrupted run, if any.

    The same request always generates the same bytes, and the size of one split does not affect other splits. A split is
    complete if its folder (Request.folder) exists. The folder contains:

    - <speaker>/<chapter>/<speaker>-<chapter>-<nnnn>.flac (16 kHz), and <speaker>-<chapter>.trans.txt (upper case)
    - SPEAKERS.TXT and split.json

    The file vocabulary.txt is next to the split folders. Raises UsageError for an unknown language or an impossible
    number of words, and RuntimeError if espeak-ng fails.
    """
    if not _unfinished(root, request, splits):
        return
    spoken_words = vocabulary(request.language, request.words)
    corpus = request.corpus(root)
    corpus.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(root / f".{corpus.name}.lock", f"Waiting for another process that is generating {corpus}"):
        jobs = {}
        for split in _unfinished(root, request, splits):
            folder, (first, *others) = request.folder(root, split), plan(root, request, split)
            if folder.exists():  # a run was stopped between the last two lines of _finish_split
                shutil.rmtree(first.folder)
            else:
                first.prepare_folders()
                jobs[folder] = [first, *others]
        if jobs:  # all splits share one pool of processes, because starting it costs seconds
            names = ", ".join(folder.name for folder in jobs)
            (corpus / "vocabulary.txt").write_text("".join(f"{word}\n" for word in spoken_words), encoding="utf-8")
            generate_speakers([job for split_jobs in jobs.values() for job in split_jobs], f"Generating {names}")
        for folder, split_jobs in jobs.items():
            _finish_split(folder, split_jobs)


def _unfinished(root: Path, request: Request, splits: Sequence[str]) -> list[str]:
    folders = {split: request.folder(root, split) for split in splits}
    return [split for split, folder in folders.items() if not folder.exists() or _working_folder(folder).exists()]


def _working_folder(folder: Path) -> Path:
    """Return the folder in which a split is generated, next to the split's final folder."""
    return folder.with_name(f".{folder.name}")


def plan(root: Path, request: Request, split: str) -> list[SpeakerJob]:
    """Return the jobs for all speakers of a split. A larger dev or test split contains every smaller one."""
    seconds, utterances = 0.0, None
    if split == "train":
        speakers = max(2, round(BASE_TRAIN_SPEAKERS * math.sqrt(request.hours / BASE_HOURS)))
        seconds = request.hours * 3600 / speakers
    else:
        speakers, utterances = request.evaluation(split)
    working = _working_folder(request.folder(root, split))
    return [SpeakerJob(working, request, split, index, seconds, utterances) for index in range(speakers)]


def _finish_split(folder: Path, jobs: list[SpeakerJob]) -> None:
    """Write SPEAKERS.TXT and split.json for a fully generated split, and move the split to its final folder."""
    first = jobs[0]
    records = [read_json(job.record) for job in jobs]
    lines = ["; ID | SEX | SUBSET | MINUTES | VOICE | KIND | RATE | PITCH | SIGNAL TO NOISE | REVERBERATION TIME\n"]
    for record in records:
        voice = f"{record['voice']}, {record['kind']}, {record['rate']}, {record['pitch']}"
        room = f"{record['signal_to_noise']:.1f}, {record['reverberation_time']:.2f}"
        minutes = f"{record['seconds'] / 60:.2f}"
        lines.append(f"{record['number']} | {record['sex']} | {first.split} | {minutes} | {voice}, {room}\n")
    (first.speech / SPEAKERS).write_text("".join(lines), encoding="utf-8")
    content = {
        "language": first.request.language,
        "vocabulary": first.request.words,
        "seed": first.request.seed,
        "generator": hash_generator(),
        "espeak_version": espeak_version(),
        "sha256": hashlib.sha256("".join(record["sha256"] for record in records).encode()).hexdigest(),
        "speakers": len(records),
        "utterances": sum(record["utterances"] for record in records),
        "words": sum(record["words"] for record in records),
        "hours": round(sum(record["seconds"] for record in records) / 3600, 5),
    }
    (first.speech / "split.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    first.speech.rename(folder)
    shutil.rmtree(first.folder)
