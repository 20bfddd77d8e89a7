"""KenLM's binaries, sound and damaged. Those in kenlm/ were written by build_binary of KenLM 0.3.0 from
lmplz_tiny.arpa: probing, trie, -q 8 -b 8 trie (quantised), -a 255 trie (arrays), -q 4 -b 4 -a 64 trie (both).
"""

import os
import random
import shutil
import signal
import struct
import traceback
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from asr_ablations.language_models import binary, model
from asr_ablations.language_models.binary import checked_words
from asr_ablations.tools.errors import UsageError

BINARIES = sorted((Path(__file__).parent / "kenlm").glob("*.binary"))
ARPA = Path(__file__).parent / "lmplz_tiny.arpa"
TOLERANCE = {"quantised.binary": 0.05, "both.binary": 0.5}
"""Of log10 of a probability, with 256 and 16 different ones."""
EVERY_SO_MANY = 23
"""Of the bits of a file one is flipped; none of the fields has a multiple of as many."""


@pytest.mark.parametrize("at_a_time", [8, 2**20])
@pytest.mark.parametrize("file", BINARIES, ids=lambda file: file.stem)
def test_a_sound_binary_says_what_its_arpa_file_says(
    file: Path, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binary, "AT_A_TIME", at_a_time)
    arpa, loaded = model.load(str(ARPA)), model._read.__wrapped__(file, 0, str(file))
    assert loaded.words == arpa.words
    for words in product(arpa.words, repeat=3):
        expected, score = (one.ngrams.score(" ".join(words)) for one in (arpa, loaded))
        assert score == pytest.approx(expected, abs=4 * TOLERANCE.get(file.name, 1e-5))


@pytest.mark.parametrize("file", BINARIES, ids=lambda file: file.stem)
def test_no_damage_ends_the_process(file: Path, tmp_path: Path) -> None:
    """Each damaged file is refused in one line, or every sentence of three words gets a score."""
    damaged = list(_damaged(file.read_bytes()))
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        _read_all(damaged, tmp_path / file.name, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        outcomes = answers.read().decode()
    _, status = os.waitpid(pid, 0)
    assert (status, len(outcomes)) == (0, len(damaged)), f"ended by {damaged[len(outcomes) :][:1]}"
    assert set(outcomes) == {"r", "t"}, "each kind of damage is refused in one line, or does not matter"


def _damaged(content: bytes) -> Iterator[bytes]:
    """Single bits, cut files, and stretches of nothing, of ones and of noise."""
    for bit in range(0, 8 * len(content), EVERY_SO_MANY):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)
    for length in range(0, len(content), max(1, len(content) // 50)):
        yield content[:length]
    generator = random.Random(0)
    for _ in range(50):
        begin = generator.randrange(len(content) - 8)
        length = generator.randrange(1, len(content) - begin)
        for stretch in (bytes(length), b"\xff" * length, generator.randbytes(length)):
            yield content[:begin] + stretch + content[begin + length :]


def _read_all(contents: list[bytes], file: Path, answers: int) -> None:
    """A letter for each: refused, taken, or Error with a traceback. In a process of its own."""
    try:
        for content in contents:
            signal.alarm(600)  # a search for ever
            file.write_bytes(content)
            os.write(answers, _read_one(file))
    finally:
        os._exit(0)


def _read_one(file: Path) -> bytes:
    try:
        loaded = model._read.__wrapped__(file, 0, str(file))
        for words in product([*loaded.words[:8], "<unk>", "unheard"], repeat=3):
            loaded.ngrams.score(" ".join(words))
    except UsageError as error:
        return b"r" if file.name in str(error) and "\n" not in str(error) else b"E"
    except BaseException:
        traceback.print_exc()
        return b"E"
    return b"t"


@pytest.mark.parametrize(
    ("place", "content", "words"),
    [
        (108, struct.pack("<Q", 2**62), "n-grams in"),
        (88, b"\x01", "1 orders"),
        (96, struct.pack("<i", 6), "number 6"),
        (92, struct.pack("<f", 0.5), "0.5 places"),
        (92, struct.pack("<f", float("nan")), "nan places"),
        (48, b"9", "format 5"),
        (-2, b"\0", "words, of 9"),
        (-3, b"\xff", "list of words"),
    ],
)
def test_what_is_damaged_is_said(place: int, content: bytes, words: str, tmp_path: Path) -> None:
    damaged = bytearray((Path(__file__).parent / "kenlm" / "probing.binary").read_bytes())
    place %= len(damaged)
    damaged[place : place + len(content)] = content
    (tmp_path / "bad.binary").write_bytes(damaged)
    with pytest.raises(UsageError, match=rf"bad\.binary.*{words}"):
        model._read.__wrapped__(tmp_path / "bad.binary", 0, "bad.binary")


def test_a_binary_without_words_is_refused(tmp_path: Path) -> None:
    content = bytearray((Path(__file__).parent / "kenlm" / "trie.binary").read_bytes())
    content[100] = 0
    (tmp_path / "a.binary").write_bytes(content)
    with pytest.raises(UsageError, match="contains no words"):
        checked_words(tmp_path / "a.binary")


def test_a_folder_with_a_damaged_binary_names_it(tmp_path: Path) -> None:
    shutil.copy(BINARIES[0], tmp_path / model.BINARY)
    with (tmp_path / model.BINARY).open("r+b") as file:
        file.truncate(500)
    with pytest.raises(UsageError, match=r"lm\.binary"):
        model.load(str(tmp_path))
