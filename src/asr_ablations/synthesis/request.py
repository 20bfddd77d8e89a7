"""The contents and size of a synthetic corpus, and the folders in which its splits are stored."""

from dataclasses import dataclass
from pathlib import Path

from asr_ablations.tools.checks import number, whole

GENERATOR_VERSION = 5  # increased whenever the same request gives different files
SPLITS = ("train", "dev-clean", "dev-other", "test-clean", "test-other")
MOST = 100_000  # upper limit of the hours of training audio, and of each count
SPEAKERS = "SPEAKERS.TXT"  # a file in each split, with one line per speaker


@dataclass(frozen=True)
class Request:
    """A request for a corpus. Language, words and seed determine its speakers and sentences; the rest is its size.

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
        """Return the folder of all corpora that have these speakers and this vocabulary, whatever their size."""
        return root / f"{self.language}-{self.words}words-seed{self.seed}-v{GENERATOR_VERSION}"

    def folder(self, root: Path, split: str) -> Path:
        """Return the folder of a split. Only the size of this split is in its name, so other requests can share it."""
        speakers, sentences = self.evaluation(split)
        size = f"{self.hours:g}h" if split == "train" else f"{speakers}x{sentences}"
        return self.corpus(root) / f"{split}-{size}"
