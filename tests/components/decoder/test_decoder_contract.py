"""Every decoder, and greedy decoding of a real model's outputs."""

import json

import pytest
import torch

from asr_ablations.data.alphabet import Alphabet
from tests.helpers.small_models import LETTERS, decoder
from tests.helpers.support import group_options, shared_data

every_variant = pytest.mark.parametrize("name", group_options("decoder"))


def certain(path: str) -> torch.Tensor:
    """Log-probabilities (1, T, V) of a model sure of one symbol a frame; _ is the blank."""
    symbols = torch.tensor([("_" + LETTERS.characters).index(c) for c in path], dtype=torch.long)
    return torch.nn.functional.one_hot(symbols, LETTERS.outputs).float().mul(20).log_softmax(dim=-1)[None]


def read(name: str, path: str, length: int | None = None) -> str:
    decode = decoder(name)
    (text,) = decode(certain(path), torch.tensor([len(path) if length is None else length]))
    return text


@every_variant
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("ab", "ab"),
        ("aabbb", "ab"),  # repeats are one
        ("a_a", "aa"),  # a blank tells two apart
        ("__a__b__", "ab"),
        ("a__a_ab", "aaab"),
        ("_____", ""),
        ("a", "a"),
        ("_", ""),
        ("a b", "a b"),
        (" a _ b ", "a b"),  # one space between words, none at the ends
    ],
)
def test_repeats_merge_and_blanks_vanish(name: str, path: str, text: str) -> None:
    assert read(name, path) == text


@every_variant
@pytest.mark.parametrize(("length", "text"), [(0, ""), (1, "a"), (2, "ab"), (4, "aba")])
def test_frames_past_the_length_are_not_read(name: str, length: int, text: str) -> None:
    assert read(name, "abaabb", length) == text


@every_variant
def test_alone_as_in_a_batch(name: str) -> None:
    decode = decoder(name)
    log_probs = torch.randn(6, 12, LETTERS.outputs, generator=torch.Generator().manual_seed(1)).mul(3).log_softmax(-1)
    lengths = torch.tensor([12, 0, 5, 1, 12, 7])
    alone = [decode(log_probs[i : i + 1, :n], lengths[i : i + 1])[0] for i, n in enumerate(lengths.tolist())]
    assert decode(log_probs, lengths) == alone
    assert alone[1] == ""
    assert len(set(alone)) > 3


@every_variant
def test_no_frames_at_all(name: str) -> None:
    decode = decoder(name)
    assert decode(torch.zeros(2, 0, LETTERS.outputs), torch.tensor([0, 0])) == ["", ""]


def test_greedy_reads_a_real_models_outputs() -> None:
    """Mozilla DeepSpeech's 371 × 29 outputs: space, a…z, apostrophe, and the blank last."""
    outputs = torch.tensor(json.loads(shared_data("golden/decoder/libri_logits.json").read_text()))
    alphabet = Alphabet(" abcdefghijklmnopqrstuvwxyz'")
    log_probs = outputs.float().roll(1, dims=1).log_softmax(dim=-1)[None]
    assert decoder("greedy", alphabet)(log_probs, torch.tensor([371])) == [
        "i have a good deal of will you remember and what i have set my mind upon no doubt i shall some day achieve"
    ]
