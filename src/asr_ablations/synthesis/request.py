"""A request for a corpus: the speakers, the amount of speech, and the folder of each split."""

from dataclasses import dataclass
from pathlib import Path

from asr_ablations.tools.checks import number, whole

GENERATOR_VERSION = 5  # increase whenever the same request gives other files
SPLITS = ("train", "dev-clean", "dev-other", "test-clean", "test-other")
SPEAKERS = "SPEAKERS.TXT"  # of each split: a line per speaker, with its voice


@dataclass(frozen=True)
class Request:
    """A corpus: language, words and seed decide who says what; the rest is how much of it there is.

    language: a code of synthesis/languages; words: size of the vocabulary; hours: of training audio;
    validation_speakers and test_speakers: of each dev and each test split; validation_sentences and test_sentences: of
    each of these speakers. Raises UsageError for an amount out of range.
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
        number("data.hours", self.hours, above=0)
        whole("data.corpus_seed", self.seed, 0)
        for name in ("words", "validation_speakers", "validation_sentences", "test_speakers", "test_sentences"):
            whole(f"data.{name}", getattr(self, name), least=1)

    def evaluation(self, split: str) -> tuple[int, int]:
        """Return the speakers of a dev or test split, and the sentences of each of them."""
        if split.startswith("dev"):
            return self.validation_speakers, self.validation_sentences
        return self.test_speakers, self.test_sentences

    def corpus(self, root: Path) -> Path:
        """Return the folder of all splits of these speakers and this vocabulary, whatever their sizes."""
        return root / f"{self.language}-{self.words}words-seed{self.seed}-v{GENERATOR_VERSION}"

    def folder(self, root: Path, split: str) -> Path:
        """Return the folder of a split. Its name has only what the split depends on, so that requests share it."""
        speakers, sentences = self.evaluation(split)
        size = f"{self.hours:g}h" if split == "train" else f"{speakers}x{sentences}"
        return self.corpus(root) / f"{split}-{size}"
