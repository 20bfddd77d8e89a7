"""Subword units from SentencePiece (Kudo & Richardson 2018), trained on the training transcripts."""

import base64
import hashlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.tools.checks import whole
from asr_ablations.tools.errors import require
from asr_verdicts.errors import UsageError, choices

TYPES = ("unigram", "bpe")
WORD_START = "▁"
"""SentencePiece's symbol for a space. It begins the first piece of each word."""


class Pieces(Alphabet):
    """The pieces of a SentencePiece model. Its piece for unknown characters, at index 0, serves as the CTC blank.

    model: the serialised SentencePiece model. Raises UsageError if SentencePiece cannot load it.
    """

    def __init__(self, model: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self.model = model
        try:
            self.processor = SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise UsageError("alphabet: the checkpoint's SentencePiece model is damaged") from error
        self._symbols = tuple(self.processor.id_to_piece(i) for i in range(1, self.processor.vocab_size()))
        self._letters = "".join(sorted(set("".join(self._symbols).replace(WORD_START, " "))))

    @property
    def symbols(self) -> tuple[str, ...]:
        return self._symbols

    @property
    def letters(self) -> str:
        return self._letters

    @property
    def key(self) -> str:
        return f"sentencepiece {hashlib.sha256(self.model).hexdigest()}"

    def encode_all(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        rows = self.processor.encode(list(texts), num_threads=1)
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(texts))
        labels = np.fromiter((label for row in rows for label in row), dtype=np.int64, count=int(counts.sum()))
        return np.where(labels == 0, -1, labels), counts

    def decode(self, indices: Iterable[int]) -> str:
        return " ".join("".join(self._symbols[i - 1] for i in indices).replace(WORD_START, " ").split())

    def words(self, text: str) -> list[tuple[str, range]]:
        labels = self.encode(text)
        starts = [place for place, label in enumerate(labels) if self._symbols[label - 1].startswith(WORD_START)]
        return [
            (word, range(start, stop))
            for word, start, stop in zip(text.split(), starts, [*starts[1:], len(labels)], strict=True)
        ]

    def state(self) -> dict[str, str]:
        return {"sentencepiece": base64.b64encode(self.model).decode("ascii")}


class SentencePiece:
    """Prepares the corpus, and then trains a SentencePiece model on its training transcripts.

    - type: algorithm, either unigram or bpe
    - size: number of model outputs V, including the blank

    Raises UsageError for values out of range, and for a size that SentencePiece cannot reach with these transcripts.
    """

    def __init__(self, *, type: str, size: int) -> None:
        if type not in TYPES:
            raise choices("alphabet.type", type, TYPES)
        self.type, self.size = type, whole("alphabet.size", size, 3)
        require("units", f"alphabet={type}", "sentencepiece")

    def __call__(self, corpus: Corpus) -> Pieces:
        corpus.prepare()
        texts = corpus.read_set("train").usable().strings("text")
        return Pieces(_train(tuple(texts), self.type, self.size))

    def restore(self, state: Mapping[str, object]) -> Pieces:
        return Pieces(base64.b64decode(str(state["sentencepiece"])))


@lru_cache(maxsize=1)
def _train(texts: tuple[str, ...], type_: str, size: int) -> bytes:
    """Train a SentencePiece model that covers every character of the unmodified transcripts. Return it serialised."""
    from sentencepiece import SentencePieceTrainer

    written = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=written,
            model_type=type_,
            vocab_size=size,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            character_coverage=1.0,
            normalization_rule_name="identity",
            max_sentence_length=1_000_000,  # in bytes; SentencePiece skips longer transcripts
            num_threads=1,  # with more threads, repeated training may give different pieces
            minloglevel=3,
        )
    except RuntimeError as error:
        letters = len(set().union(*texts))
        most = re.search(r"<= (\d+)", str(error))
        bounds = f"at most {most[1]}" if most else f"more than the {letters} different characters"
        raise UsageError(f"alphabet.size={size}: expected {bounds} for these training transcripts") from error
    return written.getvalue()
