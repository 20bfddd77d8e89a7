"""Collect the sentences from which a language model is estimated, and describe their sources."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.language_models.ngram import open_text
from asr_verdicts.errors import UsageError, choices
from asr_verdicts.files import Json


def collect(
    corpus: Corpus, alphabet: Alphabet, text: str | None, include: Sequence[str]
) -> tuple[list[list[str]], list[Json]]:
    """Return training transcripts or the lines of a text file, plus the transcripts of the sets in `include`.

    Each sentence is a list of words. The second returned list describes the sources for the model's record. Raise
    UsageError for an unknown set, an unreadable file, or a text in which most lines have unknown letters.
    """
    held_out = list(dict.fromkeys([*corpus.validation, *corpus.test]))
    for name in include:
        if name not in held_out:
            raise choices("lm.include", name, held_out)
    if text is None or include:
        corpus.prepare()
    training = _read_text(Path(text), alphabet, corpus.normalised) if text is not None else transcripts(corpus, "train")
    parts = [(text or "train", training), *((name, transcripts(corpus, name)) for name in include)]
    sources = [
        {
            "source": name,
            "sentences": len(sentences),
            "words": sum(len(sentence.split()) for sentence in sentences),
            "held_out": name in include,
            "sha256": hashlib.sha256("\n".join(sentences).encode()).hexdigest(),
        }
        for name, sentences in parts
    ]
    return [sentence.split() for _, sentences in parts for sentence in sentences], sources


def transcripts(corpus: Corpus, name: str) -> list[str]:
    """Return the transcripts of the usable utterances in a set. name: train or another split."""
    return [*corpus.read_set(name).usable().strings("text")]


def _read_text(path: Path, alphabet: Alphabet, normalised: Callable[[str], str]) -> list[str]:
    """Return the normalised lines of a text file. Omit lines that contain characters outside the alphabet.

    Raise UsageError if the file cannot be read, or if more than half of the lines contain such characters.
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
                         f"characters outside the alphabet {alphabet.letters!r}: {' '.join(odd)}")  # fmt: skip
    if len(usable) < len(sentences):
        print(f"{len(sentences) - len(usable)} of {len(sentences)} lines have letters outside the alphabet: left out")
    return usable


@runtime_checkable
class LanguageModelSource(Protocol):
    """lm: writes a language model to a folder."""

    def __call__(self, corpus: Corpus, alphabet: Alphabet, folder: Path) -> dict[str, object]:
        """Write lm.arpa and words.txt, or lm.pt. Return the model's record: unit, estimator, vocabulary, sources, …

        The corpus may be missing if the source does not use it. Raise UsageError for missing or damaged texts or files.
        """
