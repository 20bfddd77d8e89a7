"""The corpus of tones in the layouts that corpora come in, and copies of each in other places."""

import shutil
from pathlib import Path

import numpy as np
import soundfile

from asr_ablations.language_models.model import SPACE
from tests.helpers.small_models import bigrams
from tests.helpers.trained_runs import write_trained


def write_layouts(tones: Path, manifests: Path, places: Path) -> None:
    """Folders tones, manifests, kaldi and mls under `places`, each with a -copy (of tones: `copy`), and what else keys
    point to: language models and lists of words in pairs, `quiet` with another noise, and models `trained` and
    `trained-too`.
    """
    for folder, name in ((tones, "tones"), (tones, "copy"), (manifests, "manifests"), (manifests, "manifests-copy")):
        shutil.copytree(folder, places / name)
    for end in ("", "-copy"):
        for split in ("train", "dev", "test"):
            _write_kaldi(tones / split, places / f"kaldi{end}" / "data" / split)
            _write_mls(tones / split, places / f"mls{end}" / split)
    letters = "abcdefghijklmnopqrstuvwxyz'"
    for seed, name in enumerate(("words", "other")):
        words = [a + b for a in letters[seed : seed + 12] for b in letters[:12]] + list(letters[:26])
        (places / f"{name}.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        (places / f"{name}.arpa").write_bytes(bigrams(f"{name}-of-layouts.arpa", words, seed).read_bytes())
    for seed, name in enumerate(("letters", "other-letters")):
        symbols = [SPACE, *letters]
        (places / f"{name}.arpa").write_bytes(bigrams(f"{name}-of-layouts.arpa", symbols, seed).read_bytes())
    for seed, name in enumerate(("trained", "trained-too")):
        shutil.move(write_trained(places / "runs", tones, f"seed={seed}"), places / name)
    (places / "quiet").mkdir()
    soundfile.write(places / "quiet" / "noise.wav", np.random.default_rng(0).standard_normal(8000) / 10, 16000)


def _utterances(split: Path) -> list[tuple[str, str, Path]]:
    """(id, text, audio) of a split in LibriSpeech's layout."""
    files = sorted(split.rglob("*.trans.txt"))
    lines = [(file.parent, *line.split(" ", 1)) for file in files for line in file.read_text("utf-8").splitlines()]
    return [(id_, text, folder / f"{id_}.flac") for folder, id_, text in lines]


def _write_kaldi(split: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    told = _utterances(split)
    (folder / "wav.scp").write_text("".join(f"{id_} {audio}\n" for id_, _, audio in told), encoding="utf-8")
    (folder / "text").write_text("".join(f"{id_} {text.lower()}\n" for id_, text, _ in told), encoding="utf-8")


def _write_mls(split: Path, folder: Path) -> None:
    lines = []
    for id_, text, audio in _utterances(split):
        speaker, book, number = id_.split("-")
        name = f"{speaker}_{book}_{number}"
        (folder / "audio" / speaker / book).mkdir(parents=True, exist_ok=True)
        shutil.copy(audio, folder / "audio" / speaker / book / f"{name}.flac")
        lines.append(f"{name}\t{text.lower()}\n")
    (folder / "transcripts.txt").write_text("".join(lines), encoding="utf-8")
