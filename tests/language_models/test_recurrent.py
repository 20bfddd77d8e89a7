"""The recurrent language model: its probabilities, its training, and files that are none."""

import pickle
from pathlib import Path

import pytest
import torch

from asr_ablations.data.alphabet import Letters
from asr_ablations.language_models.model import RECURRENT
from asr_ablations.language_models.recurrent import END, LetterLSTM, fit, load, save, train
from asr_verdicts.errors import UsageError
from tests.helpers.small_models import decoder, recurrent_model
from tests.language_models.test_make import make_model

LETTERS = "ab "


def drawn(**sizes: int) -> LetterLSTM:
    torch.manual_seed(0)
    return LetterLSTM(LETTERS, **{"width": 8, "layers": 2, **sizes})


@torch.no_grad()
def step_by_step(model: LetterLSTM, text: str) -> float:
    """log P of a text, a letter at a time."""
    state, before, total = None, END, 0.0
    for letter in [*map(model.numbers.__getitem__, text), END]:
        hidden, state = model.lstm(model.embedding(torch.tensor([[before]])), state)
        total += float(model.output(hidden)[0, 0].log_softmax(0)[letter])
        before = letter
    return total


def test_a_text_has_the_product_of_its_letters_whatever_stands_beside_it() -> None:
    model = drawn().eval()
    texts = ["", "a", "ab ba", "b" * 30]
    alone = [model.scores([text])[0] for text in texts]
    assert model.scores(texts) == pytest.approx(alone, abs=1e-5)
    assert alone == pytest.approx([step_by_step(model, text) for text in texts], abs=1e-4)


def test_training_finds_what_the_sentences_have_in_common() -> None:
    model = drawn()
    sentences = ["ab ab", "ab", "ab ab ab"] * 20
    before = fit(model, [text.split() for text in sentences])["perplexity"]
    counted: list[float] = []
    train(model, sentences, epochs=8, batch=8, lr=0.02, seed=0, advance=counted.append)
    after = fit(model, [text.split() for text in sentences])
    assert sum(counted) == 8 * len(sentences)
    assert (after["sentences"], after["words"]) == (60, 120)
    assert after["perplexity"] < 0.2 * before
    assert model.scores(["ab ab"]) > model.scores(["ba ba"])


def test_the_same_seed_makes_the_same_model_that_its_decoder_reads(
    tiny_corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["lm=lstm", "lm.width=8", "lm.epochs=2"]
    folders = []
    for name, seed in (("a", "seed=0"), ("b", "seed=0"), ("c", "seed=1")):
        folder, record = make_model(tmp_path / name, tiny_corpus, *small, seed)
        folders.append(folder)
    first, same, other = (load(str(folder))[0].scores(["a cab"])[0] for folder in folders)
    assert first == same != other
    assert (record["unit"], record["binary"]) == ("letter", False)
    assert record["fit"]["dev"]["perplexity"] > 1
    assert "decoder=beam_rescored" in capsys.readouterr().out
    alphabet = Letters("abcdefghijklmnopqrstuvwxyz '")
    assert decoder("beam_rescored", alphabet, lm=str(folder)).files == {"lm": folder / RECURRENT}


def test_what_is_no_model_of_these_letters_and_sizes_is_one_line(tmp_path: Path) -> None:
    class Executed:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, ("raise SystemExit('executed')",)

    for content in (b"", b"PK\x03\x04", pickle.dumps(Executed())):
        (tmp_path / RECURRENT).write_bytes(content)
        with pytest.raises(UsageError, match=r"lm\.pt: (damaged|refused|no checkpoint)") as error:
            load(str(tmp_path))
        assert "\n" not in str(error.value)
    (tmp_path / RECURRENT).unlink()
    with pytest.raises(UsageError, match="lm=lstm writes one"):
        load(str(tmp_path))
    save(drawn(), tmp_path)
    whole = torch.load(tmp_path / RECURRENT, weights_only=True)
    for changed in ({"letters": "aab"}, {"letters": 3}, {"width": 16}, {"layers": 1.5}, {"state_dict": [1]}):
        torch.save({**whole, **changed}, tmp_path / RECURRENT)
        with pytest.raises(UsageError, match=r"not a recurrent language model|not a run's checkpoint"):
            load(str(tmp_path))
    with pytest.raises(UsageError, match="lacks the letters 'c d' of the alphabet"):
        decoder("beam_rescored", Letters("abcd "), lm=str(recurrent_model("of-two", "ab ")))
