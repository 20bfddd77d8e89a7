"""Language models: Kneser-Ney's estimates, and KenLM's binary files."""

from itertools import product
from pathlib import Path

import kenlm
import numpy as np
import pytest

from asr_ablations.language_models import model, ngram
from asr_ablations.language_models.model import read_binary_words
from asr_ablations.language_models.ngram import Entry, estimate, write_arpa
from asr_verdicts.errors import UsageError

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
