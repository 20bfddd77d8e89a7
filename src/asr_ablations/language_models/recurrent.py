"""Train and use a language model over letters: an LSTM that predicts each letter of a sentence, and its end.

It assigns a probability to any text, even to unknown words (Sutskever et al. 2011; for words, Mikolov et al. 2010).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from asr_ablations.language_models.model import RECURRENT, Fit, locate
from asr_ablations.runs.reader import read_checkpoint
from asr_verdicts.errors import UsageError

END = 0  # the symbol at the start and end of a sentence; letters are numbered from 1
IGNORED = -100  # marks padding among the targets


class LetterLSTM(nn.Module):
    """An LSTM over `letters`, including space. width: units per layer. dropout: rate before and after each layer."""

    def __init__(self, letters: str, *, width: int, layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.letters, self.width, self.layers = letters, width, layers
        self.numbers = {letter: number for number, letter in enumerate(letters, start=1)}
        self.embedding = nn.Embedding(len(letters) + 1, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, len(letters) + 1)

    def forward(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the log-probability (B,) in nats of each text, including its end."""
        codes = [torch.tensor([END, *(self.numbers[letter] for letter in text), END]) for text in texts]
        padded = pad_sequence(codes, batch_first=True, padding_value=IGNORED).to(self.output.weight.device)
        inputs, targets = padded[:, :-1].clamp(min=END), padded[:, 1:]
        hidden, _ = self.lstm(self.dropout(self.embedding(inputs)))
        logits = self.output(self.dropout(hidden))
        losses = cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none")
        return -losses.sum(dim=1)

    @torch.no_grad()
    def scores(self, texts: Sequence[str], batch: int = 256) -> list[float]:
        """Return the log-probability of each text in nats, computed without dropout or gradients."""
        self.eval()
        return [score for i in range(0, len(texts), batch) for score in self(texts[i : i + batch]).tolist()]


def train(
    model: LetterLSTM,
    sentences: Sequence[str],
    *,
    epochs: int,
    batch: int,
    lr: float,
    seed: int,
    advance: Callable[[float], None],
) -> None:
    """Train with Adam and a learning rate that falls linearly to 0. advance: called with each step's sentence count."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    steps = epochs * math.ceil(len(sentences) / batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(sentences), generator=generator).tolist()
        for begin in range(0, len(order), batch):
            texts = [sentences[i] for i in order[begin : begin + batch]]
            loss = -model(texts).sum() / sum(len(text) + 1 for text in texts)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            advance(len(texts))


def fit(model: LetterLSTM, sentences: Iterable[Sequence[str]]) -> Fit:
    """Measure a model's fit to sentences, as for n-gram models. Skip sentences with unknown letters."""
    letters = set(model.letters)
    texts = [text for words in sentences if letters.issuperset(text := " ".join(words))]
    total, words = sum(model.scores(texts)), sum(len(text.split()) for text in texts)
    perplexity = math.exp(-total / max(1, words + len(texts)))
    return {
        "sentences": len(texts),
        "words": words,
        "oov_rate": 0.0,
        "perplexity": perplexity,
        "perplexity_without_oov": perplexity,
        "bits_per_word": -total / math.log(2) / max(1, words),
    }


def save(model: LetterLSTM, folder: Path) -> None:
    """Write a model to a folder."""
    sizes = {"letters": model.letters, "width": model.width, "layers": model.layers}
    torch.save({**sizes, "state_dict": model.state_dict()}, folder / RECURRENT)


def load(path: str | None) -> tuple[LetterLSTM, Path]:
    """Load a model that src/lm.py lm=lstm wrote, from a folder or file. Nothing in the file is executed."""
    file = locate("lm", path, [RECURRENT], f"a folder with {RECURRENT}: src/lm.py lm=lstm writes one")
    read = read_checkpoint(file)
    try:
        model = LetterLSTM(read["letters"], width=read["width"], layers=read["layers"])
        model.load_state_dict(read["state_dict"])
        if len(model.numbers) < len(model.letters):
            raise ValueError("a letter occurs twice")
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{file}: not a recurrent language model of src/lm.py lm=lstm") from error
    return model, file
