"""The sentences for a language model and their sources."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.language_models.model import SPACE
from asr_ablations.language_models.ngram import open_text
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json


@dataclass(frozen=True)
class Text:
    """Sentences as lists of words, and a description of each source for the record."""

    sentences: list[list[str]]
    sources: list[Json]


def collect(corpus: Corpus, alphabet: Alphabet, text: str | None, include: Sequence[str]) -> Text:
    """Return the training transcripts or the lines of a text file, plus the transcripts of the sets in `include`.

    Raises UsageError for an unknown set, an unreadable file, and a text that mostly has other letters.
    """
    held_out = list(dict.fromkeys([*corpus.validation, *corpus.test]))
    for name in include:
        if name not in held_out:
            raise choices("lm.include", name, held_out)
    if text is None or include:
        corpus.prepare()
    training = _read_text(Path(text), alphabet, corpus.normalised) if text is not None else transcripts(corpus, "train")
    parts = [(text or "train", training), *((name, transcripts(corpus, name)) for name in include)]
    sources = [_describe(name, sentences, name in include) for name, sentences in parts]
    return Text([sentence.split() for _, sentences in parts for sentence in sentences], sources)


def transcripts(corpus: Corpus, name: str) -> list[str]:
    """Return the transcripts of a set's usable utterances. name: "train", or a split."""
    splits = corpus.train if name == "train" else [name]
    return [utterance.text for split in splits for utterance in corpus.read(split) if not utterance.fault]


def _read_text(path: Path, alphabet: Alphabet, normalised: Callable[[str], str]) -> list[str]:
    """Return the normalised lines of a text file, without lines that contain other characters.

    Raises UsageError for an unreadable file, or if more than half of the lines contain other characters.
    """
    try:
        with open_text(path) as lines:
            sentences = [sentence for line in lines if (sentence := normalised(line))]
    except (OSError, EOFError) as error:
        raise UsageError(f"lm.text={path}: cannot be read ({error})") from error
    letters = set(alphabet.letters)
    usable = [sentence for sentence in sentences if letters.issuperset(sentence)]
    if not usable or len(usable) < len(sentences) / 2:
        odd = next((sorted(set(sentence) - letters) for sentence in sentences if set(sentence) - letters), [])
        raise UsageError(f"lm.text={path}: {len(sentences) - len(usable)} of its {len(sentences)} lines have "
                         f"characters outside the alphabet {alphabet.characters!r}: {' '.join(odd)}")  # fmt: skip
    if len(usable) < len(sentences):
        print(f"{len(sentences) - len(usable)} of {len(sentences)} lines contain other characters and are left out")
    return usable


def _describe(name: str, sentences: list[str], held_out: bool) -> Json:
    return {
        "source": name,
        "sentences": len(sentences),
        "words": sum(len(sentence.split()) for sentence in sentences),
        "held_out": held_out,
        "sha256": hashlib.sha256("\n".join(sentences).encode()).hexdigest(),
    }


def units(words: Sequence[str], unit: str) -> list[str]:
    """Split a sentence of words into the model's units, words or characters."""
    return list(words) if unit == "word" else [SPACE if c == " " else c for c in " ".join(words)]


@runtime_checkable
class LanguageModelSource(Protocol):
    """lm: writes a language model to a folder."""

    def __call__(self, corpus: Corpus, alphabet: Alphabet, folder: Path) -> dict[str, object]:
        """Write lm.arpa and words.txt, or lm.pt. Return the model's record: unit, estimator, vocabulary, sources, …

        The corpus need not be prepared; models from other sources do not use it. Raises UsageError for missing or
        damaged texts or files."""
