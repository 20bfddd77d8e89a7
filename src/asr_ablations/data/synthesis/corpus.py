"""The built-in corpus: synthetic speakers read sentences of a grammar, in LibriSpeech's layout."""

import fcntl
import hashlib
import json
import math
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

GENERATOR_VERSION = 2  # count up whenever the same request gives other files
UTTERANCES_PER_CHAPTER = 40
SECONDS_PER_UTTERANCE = 2.2  # the mean, roughly: for plans only
SPEED = 200  # s of speech a second a core: for plans only
# Training speakers grow with the root of the hours: 160 with 45 s each at 2 h, 1,100 with 5 minutes at 100 h.
BASE_HOURS, BASE_TRAIN_SPEAKERS = 0.6, 88
# An evaluation set at BASE_HOURS; both numbers grow with the fourth root, up to about 1 h a set.
EVALUATION_SPEAKERS, EVALUATION_UTTERANCES, EVALUATION_GROWTH = 8, 13, 3.6


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


def generate(root: Path, hours: float, words: int, language: str, seed: int) -> Path:
    """Make the corpus under `root` unless it is complete, go on where another run stopped, and give its folder.

    hours: of the training split; words: size of the vocabulary; language: en or pl. The same arguments give the same
    bytes. The folder holds train, dev-clean, dev-other, test-clean and test-other, each
    <speaker>/<chapter>/<speaker>-<chapter>-<nnnn>.flac (16 kHz) and <speaker>-<chapter>.trans.txt (upper case), with
    vocabulary.txt, SPEAKERS.TXT and corpus.json, which is written last.
    Raises ValueError for arguments out of range, RuntimeError if espeak-ng fails.
    """
    name = f"{language}-{words}words-{hours:g}h-seed{seed}-v{GENERATOR_VERSION}"
    folder = Path(root) / name
    if (folder / "corpus.json").exists():
        return folder
    # Imported here: a complete corpus is found in milliseconds.
    from asr_ablations.data.synthesis.sentences import vocabulary

    if not (isinstance(hours, (int, float)) and 0 < hours < math.inf):
        raise ValueError(f"data.hours={hours} is not a number above 0")
    known = vocabulary(language, words)
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one(Path(root) / f".{name}.lock", f"Waiting for another process that generates {folder}"):
        if not (folder / "corpus.json").exists():
            shutil.rmtree(folder / ".partial", ignore_errors=True)
            for part in (".speakers", ".partial"):
                (folder / part).mkdir(exist_ok=True)
            jobs = plan(folder, hours, words, language, seed)
            _run(jobs, f"Generating {name}")
            (folder / "vocabulary.txt").write_text("".join(f"{word}\n" for word in known), encoding="utf-8")
            _finish(folder, jobs)
    return folder


def plan(folder: Path, hours: float, words: int, language: str, seed: int) -> list[Job]:
    """The speakers of all splits. A speaker's utterances do not depend on the hours, only how many there are."""
    from asr_ablations.data.synthesis.speakers import SPLITS

    growth = min(max(1.0, hours / BASE_HOURS) ** 0.25, EVALUATION_GROWTH)
    speakers = round(EVALUATION_SPEAKERS * growth)
    utterances = max(1, round(min(EVALUATION_UTTERANCES * growth, 130 * hours)))  # fewer only below 0.1 h: for tests
    train_speakers = max(2, round(BASE_TRAIN_SPEAKERS * math.sqrt(hours / BASE_HOURS)))
    jobs = []
    for split in SPLITS:
        is_train = split == "train"
        share = hours * 3600 / train_speakers if is_train else 0.0
        for index in range(train_speakers if is_train else speakers):
            count = None if is_train else utterances
            jobs.append(Job(folder, language, words, seed, split, index, share, count))
    return jobs


@lru_cache(maxsize=1)
def _tools(language: str, words: int) -> tuple[Any, Any]:
    # Cost: torch takes over a second to import, so only those who speak import it.
    import torch
    import torchaudio

    from asr_ablations.data.synthesis import espeak, speakers
    from asr_ablations.data.synthesis.sentences import SentenceSampler

    # float64, so that rounding to 16 bits hides what processors round differently
    resample = torchaudio.transforms.Resample(espeak.SAMPLE_RATE, speakers.SAMPLE_RATE, dtype=torch.float64)
    return SentenceSampler(language, words), resample.double()


def utterances(job: Job) -> Iterator[tuple[str, Any]]:
    """The sentences of a speaker with their samples, int16 (S,) at 16 kHz, without end."""
    import torch

    from asr_ablations.data.synthesis import espeak
    from asr_ablations.data.synthesis import speakers as people

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

    from asr_ablations.data.synthesis import speakers as people

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
    _write(job.record, done | {"sex": speaker.sex} | asdict(speaker))
    return seconds


def _run(jobs: list[Job], title: str) -> None:
    missing = [job for job in jobs if not job.record.exists()]
    expected = sum(job.expected_seconds for job in missing)
    processes = min(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, len(missing)
    )
    with _progress(title, sum(job.expected_seconds for job in jobs)) as advance:
        advance(sum(job.expected_seconds for job in jobs) - expected)
        if processes <= 1 or expected / SPEED < 5:  # s: below, starting processes costs more than it saves
            import torch

            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            try:
                for job in missing:
                    generate_speaker(job)
                    advance(job.expected_seconds)
            finally:
                torch.set_num_threads(threads)
            return
        # spawn: the parent may hold threads or CUDA, which a fork would break.
        with ProcessPoolExecutor(processes, get_context("spawn"), initializer=_start_worker) as pool:
            futures = {pool.submit(generate_speaker, job): job for job in missing}
            try:
                for future in as_completed(futures):
                    future.result()
                    advance(futures[future].expected_seconds)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start_worker() -> None:
    import signal

    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers

    def follow_parent() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)  # the parent was killed: nobody will read this worker's results

    threading.Thread(target=follow_parent, daemon=True).start()


@contextmanager
def _only_one(path: Path, message: str) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(message, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _progress(title: str, total: float) -> Iterator[Any]:
    console = Console(stderr=True)
    if console.is_terminal:
        with Progress(console=console) as bar:
            task = bar.add_task(title, total=total)
            yield lambda amount: bar.advance(task, amount)
        return
    done = 0.0

    def report(amount: float) -> None:
        nonlocal done
        before, done = done, done + amount
        if int(10 * before / total) != int(10 * done / total):
            print(f"{title}: {100 * done / total:.0f} %", file=sys.stderr, flush=True)

    print(title, file=sys.stderr, flush=True)
    yield report


def _finish(folder: Path, jobs: list[Job]) -> None:
    from asr_ablations.data.synthesis import espeak

    splits: dict[str, dict[str, Any]] = {}
    whole = hashlib.sha256()
    lines = ["; ID | SEX | SUBSET | MINUTES | VOICE | KIND | RATE | PITCH | SIGNAL TO NOISE | REVERBERATION TIME\n"]
    for job in jobs:
        record = json.loads(job.record.read_text())
        split = splits.setdefault(job.split, {"speakers": 0, "utterances": 0, "words": 0, "hours": 0.0})
        split["speakers"] += 1
        split["utterances"] += record["utterances"]
        split["words"] += record["words"]
        split["hours"] += record["seconds"] / 3600
        whole.update(record["sha256"].encode())
        way = f"{record['voice']}, {record['kind']}, {record['rate']}, {record['pitch']}"
        room = f"{record['signal_to_noise']:.1f}, {record['reverberation_time']:.2f}"
        lines.append(
            f"{record['number']} | {record['sex']} | {job.split} | {record['seconds'] / 60:.2f} | {way}, {room}\n"
        )
    (folder / "SPEAKERS.TXT").write_text("".join(lines), encoding="utf-8")
    for split in splits.values():
        split["hours"] = round(split["hours"], 5)
    first = jobs[0]
    content = {
        "language": first.language,
        "vocabulary": first.words,
        "seed": first.seed,
        "generator_version": GENERATOR_VERSION,
        "espeak_version": espeak.version(),
        "sha256": whole.hexdigest(),  # of all samples and transcripts
        "splits": splits,
    }
    _write(folder / "corpus.json", content)
    for part in (".partial", ".speakers"):
        shutil.rmtree(folder / part, ignore_errors=True)


def _write(path: Path, content: dict[str, Any]) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, path)
