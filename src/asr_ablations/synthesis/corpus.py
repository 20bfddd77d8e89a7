"""The built-in corpus: synthetic speakers read sentences from a grammar, in LibriSpeech's layout."""

import hashlib
import json
import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from asr_ablations.synthesis.recordings import SpeakerJob, generate_speaker
from asr_ablations.synthesis.request import GENERATOR_VERSION, SPEAKERS, Request
from asr_ablations.tools.files import read_json
from asr_ablations.tools.machine import cores, one_at_a_time
from asr_ablations.tools.signals import end_with, start_of
from asr_verdicts.terminal import bar

SPEED = 200  # seconds of speech per second and core, only for estimates
WORTH_PROCESSES = 5.0  # seconds of work; for less, starting processes costs more than it saves


def do_all(jobs: list[SpeakerJob], title: str) -> None:
    """Generate every speaker without a record, in one process per core if that is faster; show progress."""
    open_jobs = [job for job in jobs if not job.record.exists()]
    expected = sum(job.expected_seconds for job in open_jobs)
    processes = min(cores(), len(open_jobs))
    print(title, file=sys.stderr, flush=True)
    with bar(title, sum(job.expected_seconds for job in jobs)) as advance:
        advance(sum(job.expected_seconds for job in jobs) - expected)
        if processes > 1 and expected / SPEED >= WORTH_PROCESSES:
            _do_in_processes(open_jobs, advance, processes)
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


def _do_in_processes(jobs: list[SpeakerJob], advance: Callable[[float], None], processes: int) -> None:
    # spawn: the parent may have threads or CUDA, which a fork would break
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
    end_with(parent, started)


# Training speakers grow with the root of the hours: 160 with 45 s each at 2 h, 1,100 with 5 minutes at 100 h.
BASE_HOURS, BASE_TRAIN_SPEAKERS = 0.6, 88


def generate(root: Path, request: Request, splits: Sequence[str]) -> None:
    """Generate splits under `root` unless they exist, and continue where a run stopped.

    The same request gives the same bytes; a split only depends on its own size. Each split has a folder
    (Request.folder), which is complete if it exists:

    - <speaker>/<chapter>/<speaker>-<chapter>-<nnnn>.flac (16 kHz), and <speaker>-<chapter>.trans.txt (upper case)
    - SPEAKERS.TXT and split.json

    vocabulary.txt is next to the splits. Raises UsageError for an unknown language or an impossible number of words,
    and RuntimeError if espeak-ng fails.
    """
    if not _unfinished(root, request, splits):
        return
    # imported late, so that a complete corpus takes milliseconds
    from asr_ablations.synthesis.sentences import vocabulary

    spoken_words = vocabulary(request.language, request.words)
    corpus = request.corpus(root)
    corpus.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(root / f".{corpus.name}.lock", f"Waiting for another process that generates {corpus}"):
        jobs = {}
        for split in _unfinished(root, request, splits):
            folder, (first, *others) = request.folder(root, split), plan(root, request, split)
            if folder.exists():  # a run was stopped between the last two steps of _finish_split
                shutil.rmtree(first.folder)
            else:
                first.prepare_folders()
                jobs[folder] = [first, *others]
        if jobs:  # all splits at once, because starting the processes costs seconds
            names = ", ".join(folder.name for folder in jobs)
            (corpus / "vocabulary.txt").write_text("".join(f"{word}\n" for word in spoken_words), encoding="utf-8")
            do_all([job for split_jobs in jobs.values() for job in split_jobs], f"Generating {names}")
        for folder, split_jobs in jobs.items():
            _finish_split(folder, split_jobs)


def _unfinished(root: Path, request: Request, splits: Sequence[str]) -> list[str]:
    folders = {split: request.folder(root, split) for split in splits}
    return [split for split, folder in folders.items() if not folder.exists() or _working_folder(folder).exists()]


def _working_folder(folder: Path) -> Path:
    """Return the folder in which a split is generated, next to its final one."""
    return folder.with_name(f".{folder.name}")


def plan(root: Path, request: Request, split: str) -> list[SpeakerJob]:
    """Return the jobs of the speakers of a split. Utterance n of speaker k does not depend on the size, so a larger dev
    or test split contains the smaller one.
    """
    folder = request.folder(root, split)
    seconds, utterances = 0.0, None
    if split == "train":
        speakers = max(2, round(BASE_TRAIN_SPEAKERS * math.sqrt(request.hours / BASE_HOURS)))
        seconds = request.hours * 3600 / speakers
    else:
        speakers, utterances = request.evaluation(split)
    working = _working_folder(folder)
    return [SpeakerJob(working, request, split, index, seconds, utterances) for index in range(speakers)]


def _finish_split(folder: Path, jobs: list[SpeakerJob]) -> None:
    """Write SPEAKERS.TXT and split.json of a split with all speakers, and move it to its final folder."""
    from asr_ablations.synthesis import recordings

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
        "generator_version": GENERATOR_VERSION,
        "espeak_version": recordings.version(),
        "sha256": hashlib.sha256("".join(record["sha256"] for record in records).encode()).hexdigest(),  # of everything
        "speakers": len(records),
        "utterances": sum(record["utterances"] for record in records),
        "words": sum(record["words"] for record in records),
        "hours": round(sum(record["seconds"] for record in records) / 3600, 5),
    }
    (first.speech / "split.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    first.speech.rename(folder)
    shutil.rmtree(first.folder)
