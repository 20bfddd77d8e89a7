"""Small language models and word lists, and decoders over them."""

import functools
import itertools
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from asr_ablations.config.build import build
from asr_ablations.data.alphabet import Alphabet, Letters
from asr_ablations.language_models.model import SPACE
from asr_ablations.language_models.ngram import Entry, write_arpa
from asr_ablations.language_models.recurrent import LetterLSTM, save
from asr_verdicts.errors import UsageError
from tests.helpers.support import compose

LETTERS = Letters("ab ")


@functools.cache
def folder() -> Path:
    """A folder for these files that goes with the process."""
    kept = tempfile.TemporaryDirectory()
    folder.kept = kept  # type: ignore[attr-defined]
    return Path(kept.name)


def bigrams(name: str, words: list[str], seed: int = 0) -> Path:
    """An ARPA file with random probabilities of all words, and of pairs of the first few."""
    generator = np.random.default_rng(seed)
    drawn = generator.uniform(0.5, 1.5, len(words))
    first: list[Entry] = [(("<unk>",), -4.0, 0.0), (("<s>",), -99.0, -0.2), (("</s>",), -0.8, None)]
    first += [((word,), math.log10(p), -0.3) for word, p in zip(words, 0.8 * drawn / drawn.sum(), strict=True)]
    few = ["<s>", *words[:4]]
    second: list[Entry] = [((a, b), -float(generator.uniform(0.1, 1.5)), None) for a in few for b in few[1:]]
    write_arpa(folder() / name, [first, second])
    return folder() / name


def spelled(alphabet: Alphabet, longest: int) -> list[str]:
    """Every word over the letters."""
    letters = alphabet.letters.replace(" ", "")
    return ["".join(w) for n in range(1, longest + 1) for w in itertools.product(letters, repeat=n)]


def recurrent_model(name: str, letters: str, seed: int = 0) -> Path:
    """A recurrent model of these letters with weights as they are drawn."""
    made = folder() / name
    made.mkdir(exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LetterLSTM(letters, width=8, layers=1)
        model.output.weight.data.mul_(4)  # else it prefers nothing
    save(model, made)
    return made


def models(alphabet: Alphabet, longest: int) -> list[str]:
    """A model of words, one of characters, and a recurrent one."""
    mark = _mark(alphabet, longest)
    characters = [SPACE if c == " " else c for c in alphabet.letters]
    made = [bigrams(f"{mark}.arpa", spelled(alphabet, longest)), bigrams(f"{mark}-characters.arpa", characters)]
    return [*map(str, made), str(recurrent_model(f"{mark}-recurrent", alphabet.letters))]


def lists(alphabet: Alphabet, longest: int) -> list[str]:
    """A list of all words."""
    file = folder() / f"{_mark(alphabet, longest)}.txt"
    file.write_text("\n".join(spelled(alphabet, longest)), encoding="utf-8")
    return [str(file)]


def _mark(alphabet: Alphabet, longest: int) -> str:
    return "".join(f"{ord(c):x}" for c in alphabet.letters) + str(longest)


FILES = {"lm": models, "words": lists}
"""What the keys of decoders that name a file can be given: several where several kinds share a key."""


def decoder(name: str, alphabet: Alphabet = LETTERS, longest: int = 5, **changes: Any) -> Any:
    """The decoder of conf/decoder/<name>.yaml over such files."""
    node = compose(f"decoder={name}").decoder
    given = {key: make(alphabet, longest) for key, make in FILES.items() if key in node and key not in changes}
    error: UsageError | None = None
    for choice in itertools.product(*given.values()):
        for key, value in {**dict(zip(given, choice, strict=True)), **changes}.items():
            OmegaConf.update(node, key, value)
        try:
            return build(node)(alphabet)
        except UsageError as refused:
            error = refused
    assert error is not None
    raise error
