"""Fixtures of the whole suite."""

import gc
import getpass
import itertools
import json
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from asr_ablations.config.compose import look_up_in
from asr_ablations.native import extension
from asr_ablations.tools.files import CONF
from tests.helpers.changed import is_touched, reached
from tests.helpers.command import clean_environment, common_folder, made_once, run_folders
from tests.helpers.ending import end_with_parent
from tests.helpers.interpreter import expect, python

DEAR_FIXTURES = {"corpora", "memorised_run"}  # who wants them starts commands, or waits for a training
LONGEST_TEMPORARY = 72  # characters: addresses of sockets in it may have 107
COMPILED = os.environ.get("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/torchinductor_{getpass.getuser()}")
COMPILERS = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # of several, each is a process that imports torch
    "TORCHINDUCTOR_VEC_ISA_OK": "1",  # it asks as many processes whether what the processor says is true
    "XLA_FLAGS": "--xla_backend_optimization_level=0",  # JAX compiles twice as fast what takes a few steps here
}
LIGHTNING_WARNINGS = (
    "ignore:.*does not have many workers",  # reading in the training process is meant: audio is remembered
    "ignore:.*smaller than the logging interval",  # the tiny corpus has three batches
    "ignore:.*isinstance.treespec, LeafSpec",  # Lightning 2.6 under torch 2.11
    "ignore:.*Checkpoint directory .* exists",  # a run that goes on
    "ignore:.*srun. command is available on your system",  # runs are started by a launcher, or by hand
    "ignore:.*GPU available but not used",  # the default suite is CPU only
    "ignore:The dirpath has changed",  # a resumed fit has a folder of its own
    "ignore:You're resuming from a checkpoint that ended before",  # the data goes on where it was by itself
)
SENTENCES = ("a cab", "bad dad", "a bed", "cab", "dad had a cab", "be a dab", "faded", "a bee")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background job inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def write_split(folder: Path, speakers: int, utterances: int, first: int) -> None:
    """Tones in noise under LibriSpeech's layout, 0.5 to 1.2 s each."""
    generator = np.random.default_rng(first)
    sentences = itertools.cycle(SENTENCES)
    for speaker in range(first, first + speakers):
        chapter = folder / str(speaker) / "1"
        chapter.mkdir(parents=True)
        lines = []
        for number in range(utterances):
            id_ = f"{speaker}-1-{number:04d}"
            seconds = np.arange(generator.integers(8000, 19200)) / 16000
            tone = 0.3 * np.sin(2 * np.pi * (100 + 40 * number) * seconds)
            samples = tone + 0.05 * generator.standard_normal(len(seconds))
            soundfile.write(chapter / f"{id_}.flac", samples, 16000, subtype="PCM_16")
            lines.append(f"{id_} {next(sentences).upper()}\n")
        (chapter / f"{speaker}-1.trans.txt").write_text("".join(lines), encoding="utf-8")


def write_tiny_corpus(root: Path) -> Path:
    write_split(root / "train", speakers=2, utterances=5, first=10)
    write_split(root / "dev", speakers=2, utterances=3, first=20)
    write_split(root / "test", speakers=1, utterances=2, first=30)
    return root


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed",
        nargs="?",
        const="",
        metavar="COMMIT",
        help="run the tests of packages that differ from COMMIT (the upstream branch), and of all that import them",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that --changed does not reach."""
    if config.option.changed is None or collection_path.suffix != ".py":
        return None
    return None if is_touched(collection_path, reached(config.option.changed)) else True


def pytest_configure(config: pytest.Config) -> None:
    """Look up configs in conf/, as commands do; a process that shares the tests ends with the one that started it."""
    look_up_in(CONF)
    os.environ.update(COMPILERS)
    for line in LIGHTNING_WARNINGS:
        config.addinivalue_line("filterwarnings", line)
    if hasattr(config, "workerinput"):
        end_with_parent()


def pytest_collection_finish() -> None:
    """Collect garbage less often, and not among the imports, which are half a million objects."""
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts commands as slow, and put files with most slow tests first, for several processes."""
    if find_spec("flashlight") is None:
        for item in items:
            if "lexicon" in item.name:
                item.add_marker(pytest.mark.skip(reason="the extra `lexicon` is not installed"))
    for item in items:
        if DEAR_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture(scope="session", autouse=True)
def own_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests learn of audio files, and what killed processes leave behind, in folders of the tests."""
    own = {"ASR_ABLATIONS_INDEX": str(tmp_path_factory.mktemp("memory"))}
    if len(str(folder := common_folder(tmp_path_factory, "left"))) < LONGEST_TEMPORARY:
        own |= {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": COMPILED}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(autouse=True)
def without_native() -> Iterator[None]:
    """Begin each test without the native library, which an earlier training took for the whole process."""
    extension._active = None
    yield
    extension._active = None


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a corpus of tones: train (2 speakers × 5), dev (2 × 3), test (1 × 2). Read only."""
    return made_once(tmp_path_factory, "tones", write_tiny_corpus)


@pytest.fixture(scope="session")
def places(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that <name> lies in, in tests/knobs.yaml."""
    from tests.helpers.layouts import write_layouts  # here, because it imports torch

    folder = tmp_path_factory.mktemp("places")
    write_layouts(tiny_corpus, folder)
    return folder


@pytest.fixture(scope="session")
def handmade(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.helpers.comparison import comparison

    return comparison(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def manifests(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl, dev.jsonl and test.jsonl of the tiny corpus."""
    folder = tmp_path_factory.mktemp("manifests")
    for split in ("train", "dev", "test"):
        lines = [
            {"audio_filepath": str(path.parent / f"{line.split()[0]}.flac"), "text": line.partition(" ")[2]}
            for path in sorted((tiny_corpus / split).rglob("*.trans.txt"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def memorised_run(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that has learnt the corpus of tones by heart: no error on its training set. Read only."""
    return made_once(tmp_path_factory, "memorised", lambda folder: train_memorised(tiny_corpus, folder))


def train_memorised(corpus: Path, folder: Path) -> Path:
    splits = ["data.train=[train]", "data.validation=[train]", "data.test=[train]"]
    model = ["width=32", "layers=1", "dropout=0", "augment=none", "batch.size=4", "cache=none", "max_epochs=60"]
    machine = ["logger=csv", "progress=false", "gpus=0", f"outputs={folder}"]
    words = ["src/train.py", "data=librispeech", f"data.root={corpus}", *splits, *model, *machine]
    expect(0, python(words, clean_environment(folder, folder)))
    (run,) = run_folders(folder)
    return run
