"""A request for a corpus: its speakers, the amount of speech, and the folder of each split."""

from dataclasses import dataclass
from pathlib import Path

from asr_ablations.tools.checks import number, whole

GENERATOR_VERSION = 5  # increased whenever the same request gives different files
SPLITS = ("train", "dev-clean", "dev-other", "test-clean", "test-other")
MOST = 100_000  # hours of training audio, and anything that is counted
SPEAKERS = "SPEAKERS.TXT"  # in each split: one line per speaker, with its voice


@dataclass(frozen=True)
class Request:
    """A corpus: language, words and seed determine its speakers and sentences, the others its size.

    - language: a code of synthesis/languages
    - words: size of the vocabulary
    - hours: of training audio
    - validation_speakers, test_speakers: of each dev or test split
    - validation_sentences, test_sentences: of each of these speakers

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
        """Return the number of speakers of a dev or test split, and of sentences of each."""
        if split.startswith("dev"):
            return self.validation_speakers, self.validation_sentences
        return self.test_speakers, self.test_sentences

    def corpus(self, root: Path) -> Path:
        """Return the folder of all splits, of any size, with these speakers and this vocabulary."""
        return root / f"{self.language}-{self.words}words-seed{self.seed}-v{GENERATOR_VERSION}"

    def folder(self, root: Path, split: str) -> Path:
        """Return the folder of a split, named by its size, so that requests with different other splits share it."""
        speakers, sentences = self.evaluation(split)
        size = f"{self.hours:g}h" if split == "train" else f"{speakers}x{sentences}"
        return self.corpus(root) / f"{split}-{size}"
