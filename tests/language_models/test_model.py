"""Language models: Kneser-Ney's estimates, KenLM's binary files, and the recurrent model."""

import pickle
from itertools import product
from pathlib import Path

import kenlm
import numpy as np
import pytest
import torch

from asr_ablations.data.alphabet import Letters
from asr_ablations.language_models import model, ngram
from asr_ablations.language_models.model import RECURRENT, read_binary_words
from asr_ablations.language_models.ngram import Entry, estimate, write_arpa
from asr_ablations.language_models.recurrent import END, LetterLSTM, fit, load, save, train
from asr_verdicts.errors import UsageError
from tests.helpers.small_models import decoder, recurrent_model
from tests.language_models.test_make import make_model

HERE = Path(__file__).parent


def text(sentences: int, words: int, seed: int = 0) -> list[list[str]]:
    """Sentences of 0 to 6 words, some much more frequent than others; "w1" always follows "w0"."""
    generator = np.random.default_rng(seed)
    known = [f"w{i}" for i in range(words)]
    weights = 1 / np.arange(1, words + 1)
    drawn = []
    for _ in range(sentences):
        sentence = generator.choice(known, generator.integers(0, 7), p=weights / weights.sum()).tolist()
        drawn.append([part for word in sentence for part in ([word, "w1"] if word == "w0" else [word])])
    return drawn


def read(file: Path) -> dict[str, tuple[float, float]]:
    """n-gram → log10 of the probability and of the back-off weight."""
    entries, inside = {}, False
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("\\"):
            inside = line.endswith("-grams:")
        elif inside and line:
            probability, gram, *backoff = line.split("\t")
            entries[gram] = (float(probability), float(backoff[0]) if backoff else 0.0)
    return entries


def same(own: list[list[Entry]], reference: Path) -> None:
    expected = read(reference)
    estimated = {" ".join(gram): (p, backoff or 0.0) for entries in own for gram, p, backoff in entries}
    assert estimated.keys() == expected.keys()
    for gram, values in estimated.items():
        assert values == pytest.approx(expected[gram], abs=1e-4), gram


@pytest.mark.parametrize(("name", "prune"), [("whole", [0, 0, 0]), ("pruned", [0, 1, 1]), ("tiny", [0, 0, 0])])
def test_as_lmplz(name: str, prune: list[int]) -> None:
    """The ARPA files were written by lmplz of KenLM 0.3.0: -o 3 --discount_fallback --prune …, from the text beside
    them (tiny: its first three lines, too few to estimate the discounts).
    """
    lines = (HERE / "lmplz.txt").read_text(encoding="utf-8").splitlines()
    sentences = [line.split() for line in (lines[:3] if name == "tiny" else lines)]
    same(estimate(sentences, 3, prune), HERE / f"lmplz_{name}.arpa")


@pytest.mark.parametrize(("order", "prune"), [(2, [0, 0]), (5, [0, 0, 1, 1, 2])])
def test_as_lmplz_of_this_machine(order: int, prune: list[int], tmp_path: Path) -> None:
    program = ngram.find_program("lmplz")
    if program is None:
        pytest.skip("no lmplz on the PATH (make lmplz builds it)")
    sentences = text(400, 40, seed=order)
    (tmp_path / "text").write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))
    ngram.run_lmplz(program, tmp_path / "text", tmp_path / "lm.arpa", order, prune)
    same(estimate(sentences, order, prune), tmp_path / "lm.arpa")


@pytest.mark.parametrize(("sentences", "order", "prune"), [(3, 2, [0, 0]), (300, 4, [0, 1, 1, 2])])
def test_probabilities_after_every_context_sum_to_one(
    sentences: int, order: int, prune: list[int], tmp_path: Path
) -> None:
    """By KenLM's own reading of the file, backing off where it must."""
    said = text(sentences, 12)
    write_arpa(tmp_path / "lm.arpa", estimate(said, order, prune))
    model = kenlm.Model(str(tmp_path / "lm.arpa"))
    words = sorted({word for sentence in said for word in sentence})
    for context in ([], ["w1"], ["w0", "w1"], ["w0", "w1", "w2"], ["never"], words[-3:]):
        state = kenlm.State()
        model.BeginSentenceWrite(state)
        for word in context:
            after = kenlm.State()
            model.BaseScore(state, word, after)
            state = after
        total = sum(10 ** model.BaseScore(state, word, kenlm.State()) for word in [*words, "</s>", "unheard"])
        assert total == pytest.approx(1, abs=1e-5), context


@pytest.mark.parametrize("file", sorted((HERE / "kenlm").glob("*.binary")), ids=lambda file: file.stem)
def test_a_binary_says_what_its_arpa_file_says(file: Path) -> None:
    """Within what 256 and 16 different probabilities allow, in log10."""
    arpa, loaded = model.load(str(HERE / "lmplz_tiny.arpa")), model._read.__wrapped__(file, 0)
    tolerance = {"quantised": 0.05, "both": 0.5}.get(file.stem, 1e-5)
    assert loaded.words == arpa.words
    for words in product(arpa.words, repeat=3):
        expected, score = (one.ngrams.score(" ".join(words)) for one in (arpa, loaded))
        assert score == pytest.approx(expected, abs=4 * tolerance)


def test_a_cut_binary_and_one_without_words_are_refused(tmp_path: Path) -> None:
    for name, kept in (("probing", 0), ("probing", 500), ("trie", -1)):
        file = tmp_path / "cut.binary"
        file.write_bytes((HERE / "kenlm" / f"{name}.binary").read_bytes()[:kept])
        with pytest.raises(UsageError, match=r"cut\.binary"):
            model._read.__wrapped__(file, 0)
    content = bytearray((HERE / "kenlm" / "trie.binary").read_bytes())
    content[100] = 0
    (tmp_path / "a.binary").write_bytes(content)
    with pytest.raises(UsageError, match="contains no words"):
        read_binary_words(tmp_path / "a.binary")


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
