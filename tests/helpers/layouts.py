"""The corpus of tones in the layout of each corpus of conf/data, and copies of each in other places."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from asr_ablations.components.data.librispeech import list_folder
from asr_ablations.language_models.model import SPACE
from tests.helpers.small_models import bigrams, recurrent_model
from tests.helpers.support import component, described, group_options
from tests.helpers.trained_runs import write_trained

ROLES = {"train": "train", "validation": "dev", "test": "test"}
"""The split of the tones that a corpus has in each role."""


def delivered() -> list[str]:
    """The corpora of conf/data that somebody has to lay out: the yaml does not say where they lie."""
    return [name for name in group_options("data") if described("data", name).root is None]


def lay_out(corpus: Any, tones: Path) -> None:
    """The tones as the corpus's splits, under its root."""
    for role, split in ROLES.items():
        for name in getattr(corpus, role):
            corpus.write(name, list_folder(tones / split))


def write_layouts(tones: Path, places: Path) -> None:
    """The tones under `places` in folders tones and, by the name of each corpus, in its own layout, each with a -copy
    (of tones: `copy`); and what else keys point to: language models and lists of words in pairs, `quiet` with another
    noise, and models `trained` and `trained-too`.
    """
    for name in ("tones", "copy"):
        shutil.copytree(tones, places / name)
    for name in delivered():
        for folder in (name, f"{name}-copy"):
            lay_out(component("data", name, root=str(places / folder)), tones)
    _write_words(places)
    for seed, name in enumerate(("trained", "trained-too")):
        shutil.move(write_trained(places / "runs", tones, f"seed={seed}"), places / name)
    (places / "quiet").mkdir()
    soundfile.write(places / "quiet" / "noise.wav", np.random.default_rng(0).standard_normal(8000) / 10, 16000)


def _write_words(places: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz'"
    for seed, name in enumerate(("words", "other")):
        words = [a + b for a in letters[seed : seed + 12] for b in letters[:12]] + list(letters[:26])
        (places / f"{name}.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        (places / f"{name}.arpa").write_bytes(bigrams(f"{name}-of-layouts.arpa", words, seed).read_bytes())
    for seed, name in enumerate(("letters", "other-letters")):
        symbols = [SPACE, *letters]
        (places / f"{name}.arpa").write_bytes(bigrams(f"{name}-of-layouts.arpa", symbols, seed).read_bytes())
    for seed, name in enumerate(("recurrent", "other-recurrent")):
        shutil.copytree(recurrent_model(f"{name}-of-layouts", f"{letters} ", seed), places / name)
