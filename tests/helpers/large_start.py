"""How long a run over a large corpus takes to its first batch, and how much memory it holds then.

python -m tests.helpers.large_start <folder> [utterances]     with src/ on the path; 281,241 are all of LibriSpeech

The corpus is made in the folder if it is not there: transcripts of 185 characters, and hard links to a few recordings
of 12.5 s, on a file system that allows some 25,000 of one file (0.3 GB). Prints, for three starts in turn, seconds by
part, and the megabytes that the process has gained; the first start hashes every file, the second reads what is known.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from asr_ablations.config.build import build
from asr_ablations.data.corpus import Corpus
from asr_ablations.training.assembly import assemble
from tests.helpers.support import compose

RECORDINGS, CHAPTER, SPEAKER = 12, 48, 120
WORDS = [
    "the", "of", "and", "a", "to", "in", "he", "was", "it", "that", "his", "had", "with", "for", "on", "as", "is",
    "at", "but", "her", "not", "you", "be", "by", "she", "they", "from",
]  # fmt: skip


def write_corpus(root: Path, count: int) -> None:
    """In LibriSpeech's layout: train, and a dev of 24 utterances."""
    generator = np.random.default_rng(0)
    (root / "recordings").mkdir(parents=True)
    for number in range(RECORDINGS):
        noise = generator.integers(-3, 4, size=200_000).astype(np.int16)
        soundfile.write(root / "recordings" / f"{number}.flac", noise, 16000)
    for split, total in {"train": count, "dev": 24}.items():
        for first in range(0, total, CHAPTER):
            name = f"{first // SPEAKER}-{first // CHAPTER}"
            chapter = root / split / name.replace("-", "/")
            chapter.mkdir(parents=True)
            lines = []
            for number in range(first, min(total, first + CHAPTER)):
                id_ = f"{name}-{number - first:04d}"
                os.link(root / "recordings" / f"{number % RECORDINGS}.flac", chapter / f"{id_}.flac")
                lines.append(f"{id_} {' '.join(generator.choice(WORDS, size=60))[:185].strip()}\n")
            (chapter / f"{name}.trans.txt").write_text("".join(lines))


def own_megabytes() -> float:
    """Memory that this process shares with nobody."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1e3


def start(root: Path) -> dict[str, float]:
    """What a rank does before its first step; the last part is the first one's alone."""
    splits = [f"data.root={root}", "data.train=train", "data.validation=dev", "data.test=dev"]
    cfg = compose("data=librispeech", "width=8", "layers=1", "gpus=0", "cache=none", *splits)
    corpus: Corpus = build(cfg.data)
    _, data = assemble(cfg, corpus)

    def parts() -> Iterator[str]:
        corpus.prepare()
        data.setup()
        yield "read"
        assert data.fingerprint
        yield "fingerprint"
        next(iter(data.train_dataloader().batch_sampler or ()))
        yield "order"
        data.describe()
        yield "describe"

    before, result = own_megabytes(), dict[str, float]()
    clock, cpu = time.perf_counter(), time.process_time()
    for part in parts():
        result[part] = round(time.perf_counter() - clock - sum(result.values()), 2)
    seconds, cpu_seconds = time.perf_counter() - clock, time.process_time() - cpu
    gained = own_megabytes() - before
    return {**result, "seconds": round(seconds, 2), "CPU seconds": round(cpu_seconds, 2), "MB": round(gained)}


if __name__ == "__main__":
    folder = Path(sys.argv[1]).absolute()
    if sys.argv[2:] == ["start"]:
        print(json.dumps(start(folder)))
        sys.exit()
    if not folder.exists():
        write_corpus(folder, int((sys.argv[2:] or ["281241"])[0]))
    os.environ["ASR_ABLATIONS_INDEX"] = str(folder / "index.sqlite")
    for _ in range(3):
        subprocess.run([sys.executable, "-m", "tests.helpers.large_start", str(folder), "start"], check=True)
