"""The sentences that a language model learns from, and where they came from."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asr_ablations.data.alphabet import Alphabet, normalise
from asr_ablations.language_models.arpa import opened
from asr_ablations.language_models.model import SPACE
from asr_ablations.tools.errors import UsageError, choices


@dataclass(frozen=True)
class Text:
    """Sentences as words, and a description of each source for the record."""

    sentences: list[list[str]]
    sources: list[dict[str, Any]]


def collect(corpus: Any, alphabet: Alphabet, text: str | None, include: Sequence[str]) -> Text:
    """The training transcripts of a corpus or a text file, and the transcripts of the sets of `include`.

    Raises UsageError for a set that there is not, a file that cannot be read, and sentences of other letters.
    """
    held_out = list(dict.fromkeys([*corpus.validation, *corpus.test]))
    for name in include:
        if name not in held_out:
            raise choices("lm.include", name, held_out)
    if text is None or include:
        corpus.prepare()
    first = _file(Path(text), alphabet) if text is not None else transcripts(corpus, "train")
    parts = [(text or "train", first), *((name, transcripts(corpus, name)) for name in include)]
    sources = [_described(name, sentences, name in include) for name, sentences in parts]
    return Text([sentence.split() for _, sentences in parts for sentence in sentences], sources)


def transcripts(corpus: Any, name: str) -> list[str]:
    """What is said in a set."""
    splits = corpus.train if name == "train" else [name]
    return [utterance.text for split in splits for utterance in corpus.read(split) if not utterance.fault]


def _file(path: Path, alphabet: Alphabet) -> list[str]:
    """A sentence a line, written as transcripts are; those with other characters are left out, unless they are many."""
    try:
        with opened(path) as lines:
            sentences = [sentence for line in lines if (sentence := normalise(line))]
    except (OSError, EOFError) as error:
        raise UsageError(f"lm.text={path}: cannot be read ({error})") from error
    known = set(alphabet.letters)
    kept = [sentence for sentence in sentences if known.issuperset(sentence)]
    if not kept or len(kept) < len(sentences) / 2:
        odd = next((sorted(set(sentence) - known) for sentence in sentences if set(sentence) - known), [])
        raise UsageError(f"lm.text={path}: {len(sentences) - len(kept)} of its {len(sentences)} lines have characters "
                         f"outside of the alphabet {alphabet.characters!r}: {' '.join(odd)}")  # fmt: skip
    if len(kept) < len(sentences):
        print(f"{len(sentences) - len(kept)} of {len(sentences)} lines have other characters and are left out")
    return kept


def _described(name: str, sentences: list[str], held_out: bool) -> dict[str, Any]:
    return {
        "source": name,
        "sentences": len(sentences),
        "words": sum(len(sentence.split()) for sentence in sentences),
        "held_out": held_out,
        "sha256": hashlib.sha256("\n".join(sentences).encode()).hexdigest(),
    }


def units(words: Sequence[str], unit: str) -> list[str]:
    """A sentence as what the model counts."""
    return list(words) if unit == "word" else [SPACE if c == " " else c for c in " ".join(words)]
