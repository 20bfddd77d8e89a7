"""An LSTM language model over letters, for decoder=beam_rescored (Doetsch2016 §3.2)."""

from collections.abc import Sequence
from pathlib import Path

import torch

from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.corpus import Corpus
from asr_ablations.language_models.recurrent import LetterLSTM, save, train
from asr_ablations.language_models.text import collect
from asr_ablations.tools.checks import a_list, number, path_or_none, whole
from asr_verdicts.terminal import bar


class LSTM:
    """Trains an LSTM over the letters of the alphabet. Raises UsageError for values out of range.

    - text, include: the same as in NGram
    - width, layers, dropout: units per layer, number of layers, and dropout rate
    - epochs, batch, lr: passes over the text, sentences per batch, and initial learning rate
    - seed: seed of the weights, the order of sentences and dropout
    """

    def __init__(
        self,
        *,
        text: str | None,
        include: Sequence[str],
        width: int,
        layers: int,
        dropout: float,
        epochs: int,
        batch: int,
        lr: float,
        seed: int,
    ) -> None:
        self.text, self.include = path_or_none("lm.text", text), a_list("lm.include", include)
        self.width, self.layers = whole("lm.width", width, 1, 8192), whole("lm.layers", layers, 1, 16)
        self.dropout = number("lm.dropout", dropout, least=0, most=0.99)
        self.epochs, self.batch = whole("lm.epochs", epochs, 1), whole("lm.batch", batch, 1)
        self.lr = number("lm.lr", lr, above=0)
        self.seed = seed

    def __call__(self, corpus: Corpus, alphabet: Alphabet, folder: Path) -> dict[str, object]:
        """Train the model, write it to `folder`, and return its record."""
        texts, sources = collect(corpus, alphabet, self.text, self.include)
        sentences = [" ".join(sentence) for sentence in texts]
        torch.manual_seed(self.seed)
        model = LetterLSTM(alphabet.letters, width=self.width, layers=self.layers, dropout=self.dropout)
        if torch.cuda.is_available():
            model.cuda()
        with bar("training the language model", self.epochs * len(sentences)) as advance:
            train(model, sentences, epochs=self.epochs, batch=self.batch, lr=self.lr, seed=self.seed, advance=advance)
        save(model, folder)
        estimator = f"an LSTM of {sum(weight.numel() for weight in model.parameters()):,} parameters"
        return {
            "unit": "letter",
            "estimator": estimator,
            "vocabulary": len(alphabet.letters),
            "sources": sources,
        }
