"""The built-in corpus: synthetic speakers read sentences of a grammar, in LibriSpeech's layout."""

import hashlib
import math
import shutil
from pathlib import Path
from typing import TypedDict

from asr_ablations.synthesis.recordings import Job, generate_speaker, write_record
from asr_ablations.synthesis.work import do_all
from asr_ablations.tools.checks import is_number
from asr_ablations.tools.files import Json, read_json
from asr_ablations.tools.machine import one_at_a_time

GENERATOR_VERSION = 2  # increase whenever the same request gives other files
# Training speakers grow with the root of the hours: 160 with 45 s each at 2 h, 1,100 with 5 minutes at 100 h.
BASE_HOURS, BASE_TRAIN_SPEAKERS = 0.6, 88
# An evaluation set at BASE_HOURS; both numbers grow with the fourth root of the hours, up to about 1 h per set.
EVALUATION_SPEAKERS, EVALUATION_UTTERANCES, EVALUATION_GROWTH = 8, 13, 3.6


def generate(root: Path, hours: float, words: int, language: str, seed: int) -> Path:
    """Generate the corpus under `root` unless it is complete, continue where a run stopped, and return its folder.

    hours: of the training split; words: size of the vocabulary; language: a code of
    synthesis/languages. The same arguments give the same bytes. The folder holds train, dev-clean, dev-other,
    test-clean and test-other, each
    <speaker>/<chapter>/<speaker>-<chapter>-<nnnn>.flac (16 kHz) and <speaker>-<chapter>.trans.txt (upper case), with
    vocabulary.txt, SPEAKERS.TXT and corpus.json, which is written last.
    Raises ValueError for arguments out of range, RuntimeError if espeak-ng fails.
    """
    name = f"{language}-{words}words-{hours:g}h-seed{seed}-v{GENERATOR_VERSION}"
    folder = Path(root) / name
    if (folder / "corpus.json").exists():
        return folder
    # Imported late: a complete corpus is returned in milliseconds.
    from asr_ablations.synthesis.sentences import vocabulary

    if not is_number(hours) or hours <= 0:
        raise ValueError(f"data.hours={hours} is not a number above 0")
    spoken_words = vocabulary(language, words)
    folder.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(Path(root) / f".{name}.lock", f"Waiting for another process that generates {folder}"):
        if not (folder / "corpus.json").exists():
            shutil.rmtree(folder / ".partial", ignore_errors=True)
            for part in (".speakers", ".partial"):
                (folder / part).mkdir(exist_ok=True)
            jobs = plan(folder, hours, words, language, seed)
            do_all(generate_speaker, jobs, f"Generating {name}")
            (folder / "vocabulary.txt").write_text("".join(f"{word}\n" for word in spoken_words), encoding="utf-8")
            _finish(folder, jobs)
    return folder


def plan(folder: Path, hours: float, words: int, language: str, seed: int) -> list[Job]:
    """Return the jobs of the speakers of all splits. The hours change the number of a speaker's utterances, not their
    content.
    """
    from asr_ablations.synthesis.speakers import SPLITS

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


class SplitTotals(TypedDict):
    """What the recordings of one split add up to."""

    speakers: int
    utterances: int
    words: int
    hours: float


def _finish(folder: Path, jobs: list[Job]) -> None:
    """Write SPEAKERS.TXT and, last, corpus.json, and remove the working folders."""
    from asr_ablations.synthesis import espeak

    splits: dict[str, SplitTotals] = {}
    digest = hashlib.sha256()
    lines = ["; ID | SEX | SUBSET | MINUTES | VOICE | KIND | RATE | PITCH | SIGNAL TO NOISE | REVERBERATION TIME\n"]
    for job in jobs:
        record = read_json(job.record)
        split = splits.setdefault(job.split, {"speakers": 0, "utterances": 0, "words": 0, "hours": 0.0})
        split["speakers"] += 1
        split["utterances"] += record["utterances"]
        split["words"] += record["words"]
        split["hours"] += record["seconds"] / 3600
        digest.update(record["sha256"].encode())
        lines.append(_speaker_line(job, record))
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
        "sha256": digest.hexdigest(),  # of all samples and transcripts
        "splits": splits,
    }
    write_record(folder / "corpus.json", content)
    for part in (".partial", ".speakers"):
        shutil.rmtree(folder / part, ignore_errors=True)


def _speaker_line(job: Job, record: Json) -> str:
    voice = f"{record['voice']}, {record['kind']}, {record['rate']}, {record['pitch']}"
    room = f"{record['signal_to_noise']:.1f}, {record['reverberation_time']:.2f}"
    return f"{record['number']} | {record['sex']} | {job.split} | {record['seconds'] / 60:.2f} | {voice}, {room}\n"
