"""The contract of decoders, decoders that cannot be, and decoding held by files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from asr_ablations.data.alphabet import Alphabet, Letters
from asr_verdicts.errors import UsageError
from tests.helpers.small_models import LETTERS, bigrams, decoder, models, spelled
from tests.helpers.support import described, group_options, shared_data

every_variant = pytest.mark.parametrize("name", group_options("decoder"))


def certain(path: str) -> torch.Tensor:
    """Log-probabilities (1, T, V) of a model sure of one symbol a frame; _ is the blank."""
    symbols = torch.tensor([("_" + LETTERS.characters).index(c) for c in path], dtype=torch.long)
    return torch.nn.functional.one_hot(symbols, LETTERS.outputs).float().mul(20).log_softmax(dim=-1)[None]


@every_variant
def test_repeats_merge_blanks_vanish_and_frames_past_the_length_are_not_read(name: str) -> None:
    decode = decoder(name)
    for path, length, text in (
        ("aabbb", 5, "ab"),  # repeats are one
        ("a_a", 3, "aa"),  # a blank tells two apart
        ("__a__b__", 8, "ab"), ("a__a_ab", 7, "aaab"), ("_____", 5, ""), ("a b", 3, "a b"),
        (" a _ b ", 7, "a b"),  # one space between words, none at the ends
        ("abaabb", 0, ""), ("abaabb", 1, "a"), ("abaabb", 4, "aba"),
    ):  # fmt: skip
        assert decode(certain(path), torch.tensor([length])) == [text]


@every_variant
def test_alone_as_in_a_batch(name: str) -> None:
    decode = decoder(name)
    log_probs = torch.randn(6, 12, LETTERS.outputs, generator=torch.Generator().manual_seed(1)).mul(3).log_softmax(-1)
    lengths = torch.tensor([12, 0, 5, 1, 12, 7])
    alone = [decode(log_probs[i : i + 1, :n], lengths[i : i + 1])[0] for i, n in enumerate(lengths.tolist())]
    assert decode(log_probs, lengths) == alone
    assert alone[1] == ""
    assert len(set(alone)) > 3
    assert decode(torch.zeros(2, 0, LETTERS.outputs), torch.tensor([0, 0])) == ["", ""]


@every_variant
def test_a_wrong_value_is_named_with_what_was_expected(name: str) -> None:
    wrong = {
        "beam_width": ([0, 2.5, True, "wide", 10**9], "a whole number from 1 to 65536"),
        "prune_beams": ([0, float("nan"), "a"], "a number above 0"), "prune_symbols": ([0], "a number above 0"),
        "alpha": ([float("inf"), "a", True], "a number"), "beta": ([float("-inf")], "a number"),
        "unknown": ([float("nan")], "a number"),
    }  # fmt: skip
    for key in wrong.keys() & described("decoder", name).keys():
        values, in_range = wrong[key]
        for value in [*values, None]:
            expected = "a number, such as " if value is True or value != value else in_range  # the config refuses these
            with pytest.raises(UsageError, match=f"decoder.{key}={value}: expected {expected}") as message:
                decoder(name, **{key: value})
            assert "\n" not in str(message.value)


def refused(name: str, alphabet: Alphabet, **changes: Any) -> str:
    with pytest.raises(UsageError) as message:
        decoder(name, alphabet, **changes)
    assert "\n" not in str(message.value)
    return str(message.value)


ENGLISH = Letters("abcdefghijklmnopqrstuvwxyz '")


@pytest.mark.parametrize("name", ["beam_lm", "beam_charlm"])
def test_a_model_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    assert "decoder.lm is not set" in refused(name, LETTERS, lm=None)
    assert "nowhere.arpa: there is no such file" in refused(name, LETTERS, lm="nowhere.arpa")
    assert "there is no such file" in refused(name, LETTERS, lm=str(tmp_path))  # a folder without a model
    for number, content in enumerate([b"", b"hello\n", b"\\data\\\nngram 1=3\n\n\\1-grams:\n-1\ta\n", bytes(100)]):
        file = tmp_path / f"{number}.arpa"
        file.write_bytes(content)
        message = refused(name, LETTERS, lm=str(file))
        assert f"{number}.arpa:" in message
        assert "KenLM cannot read it" in message or "not an ARPA file" in message or "NUL" in message


def test_a_model_of_other_letters_another_case_or_the_other_unit() -> None:
    upper = str(bigrams("upper.arpa", [word.upper() for word in spelled(LETTERS, 3)]))
    message = refused("beam_lm", ENGLISH, lm=upper)
    assert 'words cannot be spelled with the alphabet "abc' in message
    assert "case or Unicode form differ" in message
    greek = str(bigrams("greek.arpa", ["αβ", "βα", "ab"]))
    message = refused("beam_lm", ENGLISH, lm=greek)
    assert "2 of its 3 words cannot be spelled" in message
    assert "case" not in message
    assert "αβ" in message
    characters = str(bigrams("greek-characters.arpa", ["α", "β"]))
    assert "α β are not in the alphabet" in refused("beam_charlm", ENGLISH, lm=characters)
    characters, words = models(ENGLISH, 1)[1], str(bigrams("longer.arpa", ["ab", "b"]))
    assert "a model of characters; use decoder=beam_charlm" in refused("beam_lm", ENGLISH, lm=characters)
    assert "a model of words; use decoder=beam_lm" in refused("beam_charlm", ENGLISH, lm=words)


def test_a_list_of_words(tmp_path: Path) -> None:
    assert "decoder.words is not set" in refused("lexicon", LETTERS, words=None)
    assert "there is no such file" in refused("lexicon", LETTERS, words="nowhere.txt")
    for content, expected in {
        "": "it contains no words",
        "\n \n": "it contains no words",
        "ab\nabc\n": r"1 of 2 words cannot be spelled with the alphabet 'ab ', for example 'abc'",
        "AB": "cannot be spelled",
    }.items():
        file = tmp_path / "words.txt"
        file.write_text(content, encoding="utf-8")
        assert expected in refused("lexicon", LETTERS, words=str(file))
        assert expected in refused("lexicon", LETTERS, words=str(tmp_path))  # a folder with words.txt
    file.write_bytes(b"\xff\xfe")
    assert "words.txt: it is in UTF-16" in refused("lexicon", LETTERS, words=str(file))


@pytest.mark.parametrize("name", [name for name in group_options("decoder") if name != "greedy"])
def test_a_search_refuses_a_model_with_other_outputs(name: str) -> None:
    for outputs in (LETTERS.outputs - 1, LETTERS.outputs + 1):
        message = rf"a blank and {len(LETTERS.letters)} letters, but the model has {outputs}"
        with pytest.raises(UsageError, match=message):
            decoder(name)(torch.zeros(1, 3, outputs).log_softmax(-1), torch.tensor([3]))
    if name == "lexicon":
        assert "lacks the space" in refused("lexicon", Letters("ab"))


@pytest.mark.parametrize("name", ["greedy", "beam", "beam_charlm", "beam_lm"])
def test_a_real_models_sentence(name: str) -> None:
    """pyctcdecode, tests/sample_data/libri_logits.json; a LibriSpeech 3-gram leaves the sentence as it is."""
    outputs = torch.tensor(json.loads(shared_data("golden/decoder/libri_logits.json").read_text()))
    alphabet = Letters(" abcdefghijklmnopqrstuvwxyz'")
    given = {"lm": str(shared_data("golden/lm/librispeech_3gram_pruned_tiny.arpa"))} if name == "beam_lm" else {}
    log_probs = outputs.double().roll(1, dims=-1).log_softmax(-1)  # their blank is the last output, ours the first
    assert decoder(name, alphabet, longest=1, **given)(log_probs[None], torch.tensor([len(log_probs)])) == [
        "i have a good deal of will you remember and what i have set my mind upon no doubt i shall some day achieve"
    ]


def test_bugs_bunny() -> None:
    """pyctcdecode, tests/test_decoder.py: "bugs" and "bunny" mixed 0.49 to 0.51, then "bunny"."""
    alphabet = Letters(" bgnsuy")

    def certain(path: str) -> np.ndarray:
        return np.eye(alphabet.outputs)[[("_" + alphabet.characters).index(c) for c in path]]

    mixed = 0.49 * certain("bugs__") + 0.51 * certain("bun_ny")
    probabilities = np.vstack([mixed, certain(" "), certain("bun_ny")])
    log_probs = torch.from_numpy(np.log(np.clip(probabilities, 1e-15, 1)))
    file = str(shared_data("golden/decoder/bugs_bunny_kenlm.arpa"))
    for alpha, text in ((0.0, "bunny bunny"), (1.0, "bugs bunny")):
        decode = decoder("beam_lm", alphabet, lm=file, alpha=alpha, beta=1.5)
        assert decode(log_probs[None], torch.tensor([len(log_probs)])) == [text]
