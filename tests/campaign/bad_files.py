"""Manifests, Kaldi's files, language models and recordings that are none, or lie."""

import json
import math
import os
import wave
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from asr_ablations.data import audio
from asr_ablations.data.alphabet import Alphabet
from asr_ablations.data.utterance_selection import judge
from asr_ablations.language_models import model
from tests.campaign.damages import KINDS
from tests.campaign.direct import Call, Outcome, refused
from tests.campaign.input_table import FINE
from tests.helpers.support import component

LETTERS = Alphabet("abcdefgh ")
TEXT = "a bad cab"


def _recording(path: Path, rate: int = 16000, channels: int = 1, frames: int = 16000) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(np.random.default_rng(0).integers(-9000, 9000, frames * channels).astype("<i2").tobytes())
    return path


PATHS: list[Any] = [
    None, 5, [], {}, "", "nowhere.wav", "a\0b.wav", "~nobody-here/a.wav", "\ud800.wav", "x" * 5000, ".", "/",
    "/dev/zero", "pipe.wav", "http://127.0.0.1/a.wav", "touch executed |", "train.jsonl", "loop.wav",
]  # fmt: skip
TEXTS: list[Any] = [None, 5, [], "", " ", "ñ", "\ud800", "ab" * 60, "\0"]
OFFSETS: list[Any] = [-1, "a", [], True, math.nan, 1e300, 5]
DURATIONS: list[Any] = [-1, 0, "a", [], True, math.nan, math.inf, 1e300, 10**400, 5]


def _line(**entry: Any) -> str:
    return json.dumps({"audio_filepath": "good.wav", "text": TEXT, "id": "second", **entry})


LINES: dict[str, str | bytes] = {
    "no JSON": "a bad cab",
    "half an object": '{"audio_filepath": ',
    "a list": "[]",
    "a number": "5",
    "null": "null",
    "nested": "[" * 100_000,
    "an empty object": "{}",
    "no text": '{"audio_filepath": "good.wav"}',
    "no path": '{"text": "a"}',
    "no UTF-8": b'{"audio_filepath": "\xff.wav", "text": "a"}',
    **{f"path: {value!r}"[:40]: _line(audio_filepath=value) for value in PATHS},
    **{f"text: {value!r}"[:40]: _line(text=value) for value in TEXTS},
    **{f"offset: {value!r}"[:40]: _line(offset=value) for value in OFFSETS},
    **{f"duration: {value!r}"[:40]: _line(duration=value) for value in DURATIONS},
    **{f"id: {value!r}"[:40]: _line(id=value) for value in ("\ud800", "first", "\u0000")},
    **{f"speaker: {value!r}"[:40]: _line(speaker=value) for value in ("\ud800", "\0")},
}  # fmt: skip


def _manifest(line: str | bytes, on_bad: str, folder: Path) -> Outcome:
    """Another utterance is sound: it is kept, and the bad one has a fault of its own."""
    _recording(folder / "good.wav")
    os.mkfifo(folder / "pipe.wav")
    (folder / "loop.wav").symlink_to("loop.wav")
    content = line if isinstance(line, bytes) else line.encode(errors="surrogatepass")
    for split in ("train", "dev", "test"):
        (folder / f"{split}.jsonl").write_bytes(_line(id="first").encode() + b"\n")
    with (folder / "train.jsonl").open("ab") as file:
        file.write(content + b"\n")
    return _judged(component("data", "manifest", root=str(folder), on_bad=on_bad))


def _judged(corpus: Any) -> Outcome:
    """A corpus that is refused as a whole, or has an utterance with a fault."""
    outcome = refused(lambda: (corpus.prepare(), judge(corpus, LETTERS, ["train"])))
    if outcome[0] != "silent":
        return outcome
    faults = [utterance.fault for utterance in judge(corpus, LETTERS, ["train"])["train"]]
    if not any(faults):
        return "silent", "no fault"
    return (FINE if not any("\n" in str(fault) for fault in faults) else "wrong message"), str(faults)


KALDI: dict[str, tuple[str, str | bytes]] = {
    "an empty list": ("wav.scp", ""),
    "a line of one word": ("wav.scp", "first\n"),
    "a command": ("wav.scp", "first touch executed |\n"),
    "a command from the left": ("wav.scp", "first | touch executed\n"),
    "a missing file": ("wav.scp", "first nowhere.wav\n"),
    "twice": ("wav.scp", "first good.wav\nfirst good.wav\n"),
    "no UTF-8": ("text", b"first \xff\xfe\n"),
    "no text": ("text", ""),
    "a text of nobody": ("text", "second a\n"),
    "characters": ("text", "first \u4e2d\n"),
    "texts twice": ("text", "first a\nfirst b\n"),
    **{f"segment {times}": ("segments", f"first first {times}\n") for times in (
        "", "0", "0 nan", "inf 1", "-1 0.5", "0.5 0.2", "0 50", "a b", "0 1 2 3", "1e400 2",
    )},
    "a segment of nobody": ("segments", "first second 0 0.5\n"),
}  # fmt: skip


def _kaldi(file: str, content: str | bytes, on_bad: str, folder: Path) -> Outcome:
    _recording(folder / "good.wav")
    for split in ("train", "dev", "test"):
        data = folder / "data" / split
        data.mkdir(parents=True)
        (data / "wav.scp").write_text("first good.wav\n")
        (data / "text").write_text(f"first {TEXT}\n")
    damaged = content if isinstance(content, bytes) else content.encode()
    (folder / "data" / "train" / file).write_bytes(damaged)
    return _judged(component("data", "kaldi", root=str(folder), on_bad=on_bad))


HEAD, ONE = "\\data\\\nngram 1={}\n\n", "\\1-grams:\n-1\t<unk>\n-1\t<s>\n-1\t</s>\n-1\ta\n\n"
MODELS: dict[str, str | bytes] = {
    "text": "no model\n",
    "no end": HEAD.format(4) + ONE,
    "no head": ONE + "\\end\\\n",
    "no n-grams": HEAD.format(0) + "\\1-grams:\n\n\\end\\\n",
    "a letter as probability": HEAD.format(4) + ONE.replace("-1\ta", "x\ta") + "\\end\\\n",
    "one column": HEAD.format(4) + ONE.replace("-1\ta", "a") + "\\end\\\n",
    "a word twice": HEAD.format(5) + ONE.replace("-1\ta", "-1\ta\n-1\ta") + "\\end\\\n",
    "a binary's beginning": b"mmap lm http://kheafield.com/code format version 5\n\0",
    "a binary of zeros": b"mmap lm" + bytes(5000),
    "no gzip": "not gzip",
    **{f"count {count}": HEAD.format(count) + ONE + "\\end\\\n" for count in (
        "-4", "3", "5", "1e9", "x", "", "99999999999999999999", "0x4", "4 4",
    )},
    **{f"order {order}": f"\\data\\\nngram {order}=4\n\n" + ONE + "\\end\\\n" for order in ("0", "-1", "2", "99", "a")},
}  # fmt: skip


BINARIES = sorted((Path(__file__).parents[1] / "language_models" / "kenlm").glob("*.binary"))


def _model(content: str | bytes, reader: str, name: str, folder: Path) -> Outcome:
    file = folder / ("bad.gz" if name == "no gzip" else "bad.arpa")
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return _read_model(file, reader)


def _damaged_model(kind: str, reader: str, folder: Path) -> Outcome:
    file = folder / "bad.arpa"
    file.write_bytes((Path(__file__).parents[1] / "language_models" / "lmplz_tiny.arpa").read_bytes())
    KINDS[kind](file)
    return _read_model(file, reader)


def _cut_model(binary: Path, share: float, folder: Path) -> Outcome:
    file = folder / "bad.binary"
    content = binary.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    return _read_model(file, "decoder")


def _read_model(file: Path, reader: str) -> Outcome:
    """A decoder, and lm=arpa, which loads its copy."""
    if reader == "decoder":
        return refused(lambda: model.load(str(file)), file.name)
    folder = file.parent / "installed"
    folder.mkdir()
    return refused(lambda: (model.install(file, folder), model.load(str(folder))), file.name, str(folder))


def _header(change: Callable[[bytearray], None], name: str = "a.wav") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        _recording(path) if name == "a.wav" else soundfile.write(path, np.zeros(16000), 16000)
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)
        return path

    return make


def _at(place: int, content: bytes) -> Callable[[bytearray], None]:
    def change(file: bytearray) -> None:
        file[place : place + len(content)] = content

    return change


def _cut(share: float) -> Callable[[bytearray], None]:
    return lambda file: file.__delitem__(slice(int(share * len(file)), None))


def _written(rate: int, channels: int, folder: Path) -> Path:
    return _recording(folder / "a.wav", rate, channels, 200)


def _path(name: str, folder: Path) -> Path:
    return folder / name


RECORDINGS: dict[str, Callable[[Path], Path]] = {
    **{f"{rate} Hz": partial(_written, rate, 1) for rate in (1, 7, 3999, 1000003)},
    **{f"{channels} channels": partial(_written, 16000, channels) for channels in (65, 300)},
    **{f"cut to {share}": _header(_cut(share)) for share in (0.0, 0.0001, 0.001, 0.5, 0.99)},
    **{f"FLAC cut to {share}": _header(_cut(share), "a.flac") for share in (0.01, 0.3, 0.5)},
    **{f"OGG cut to {share}": _header(_cut(share), "a.ogg") for share in (0.01, 0.3)},
    "ten hours": _header(_at(40, (1152000000).to_bytes(4, "little"))),
    "a FLAC of 2^36 samples": _header(_at(21, b"\xff" * 5), "a.flac"),
    "a FLAC of no length": _header(_at(22, bytes(4)), "a.flac"),
    "another ending": lambda folder: _recording(folder / "a.wav").rename(folder / "a.flac"),
    **{f"a path with {name}": partial(_path, path) for name, path in (
        ("NUL", "a\0.wav"), ("half a character", "\ud800.wav"), ("5000 letters", "x" * 5000), ("nothing", "no.wav"),
    )},
}  # fmt: skip


def _audio(make: Callable[[Path], Path], folder: Path) -> Outcome:
    path = make(folder)
    return refused(lambda: audio.read(path, 0.0, audio.duration(path)), path.name[:50], "truncated")


def _damaged_recording(kind: str, folder: Path) -> Path:
    path = _recording(folder / "a.wav")
    KINDS[kind](path)
    return path


def bad_files(folder: Path) -> Iterator[Call]:
    """Nothing is written into the folder: every case writes what it reads."""
    for on_bad in ("stop", "skip"):
        for name, line in LINES.items():
            yield Call("manifest", f"{name}: {on_bad}", partial(_manifest, line, on_bad))
        for name, (file, content) in KALDI.items():
            yield Call("Kaldi", f"{file}: {name}: {on_bad}", partial(_kaldi, file, content, on_bad))
    for reader in ("decoder", "install"):
        for name, text in MODELS.items():
            yield Call("language model", f"{name}: {reader}", partial(_model, text, reader, name))
        for kind in KINDS if reader == "decoder" else KINDS.keys() - {"a pipe"}:  # lm=arpa takes plain files alone
            yield Call("language model", f"{kind}: {reader}", partial(_damaged_model, kind, reader))
    for binary, share in product(BINARIES, (0.1, 0.5, 0.9, 0.99)):
        yield Call("language model", f"{binary.stem} cut to {share}", partial(_cut_model, binary, share))
    for name, make in RECORDINGS.items():
        yield Call("recording", name, partial(_audio, make))
    for kind in KINDS:
        yield Call("recording", kind, partial(_audio, partial(_damaged_recording, kind)))
