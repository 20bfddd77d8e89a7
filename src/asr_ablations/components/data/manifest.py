"""Any corpus as JSON lines, in NeMo's keys: audio_filepath, text, and where there are any duration, offset, speaker.

{"audio_filepath": "clips/a.wav", "text": "one two", "speaker": "anna", "offset": 1.5, "duration": 2.25}
"""

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from asr_ablations.data.alphabet import normalise
from asr_ablations.data.corpus import faulty, text_of
from asr_ablations.data.named_paths import Paths
from asr_ablations.data.utterance import Utterance
from asr_ablations.tools.errors import UsageError


class Manifest(Paths):
    """train, validation, test: manifests, one or several each, relative to `root`, which is the current folder where
    it is null. A set is called as its manifest, without folder and ending.

    Audio paths are relative to their manifest's folder. An utterance's id is its key `id`, else the audio file's name;
    without a key `speaker` each audio file is a speaker of its own. Times are in seconds.
    """

    def prepare(self) -> None:
        for path in self.paths.values():
            if not (self.root / path).exists():
                raise UsageError(
                    f"no manifest {self.root / path}: expected a file of JSON lines with audio_filepath and text"
                    f"; to check it once it is there: {self.prepare_command()}"
                )

    def find(self, split: str) -> list[Utterance]:
        path = self.root / self.paths[split]
        lines = text_of(path).splitlines()
        found = [_utterance(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
        if not found:
            raise UsageError(f"no utterances in {path}")
        return _named(found, path.parent)

    def write(self, split: str, utterances: Iterable[Utterance]) -> None:
        """A line each; the audio files stay where they are."""
        path = self.root / self.paths[split]
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            {"audio_filepath": str(u.audio.resolve()), "text": u.text, "speaker": u.speaker, "id": u.id}
            for u in utterances
        ]
        path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")


def _utterance(manifest: Path, number: int, line: str) -> Utterance:
    where = f"{manifest.name}:{number}"
    try:
        told = json.loads(line)
        if not isinstance(told, dict):
            raise ValueError("expected an object")
    except ValueError as error:
        return faulty(where, manifest, f"not JSON: {error}")
    for key in ("audio_filepath", "text"):
        if not isinstance(told.get(key), str):
            return faulty(where, manifest, f"no {key}: a text is expected, found {told.get(key)!r}")
    for key in ("offset", "duration"):
        if not _seconds(told.get(key)):
            return faulty(where, manifest, f"wrong {key}: seconds are expected, found {told[key]!r}")
    return _sound(manifest, told)


def _sound(manifest: Path, told: dict[str, Any]) -> Utterance:
    audio = manifest.parent / Path(told["audio_filepath"]).expanduser()
    offset, duration = told.get("offset") or 0.0, told.get("duration")
    id_, speaker = told.get("id"), told.get("speaker")
    spoken_by = _flat(audio.with_suffix(""), manifest.parent) if speaker in (None, "") else str(speaker)
    seconds = math.inf if duration is None else float(duration)
    return Utterance(str(id_ or ""), spoken_by, audio, float(offset), seconds, normalise(told["text"]))


def _seconds(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or (number and 0 <= value < math.inf)


def _named(utterances: list[Utterance], folder: Path) -> list[Utterance]:
    """Ids where none are given: the file's name, with the start in ms where that is not 0; files of one name in several
    folders get the folders too.
    """
    folders: dict[str, set[Path]] = {}
    for u in utterances:
        folders.setdefault(u.audio.stem, set()).add(u.audio)
    return [u if u.id else replace(u, id=_id(u, folder, len(folders[u.audio.stem]) > 1)) for u in utterances]


def _id(utterance: Utterance, folder: Path, ambiguous: bool) -> str:
    stem = _flat(utterance.audio.with_suffix(""), folder) if ambiguous else utterance.audio.stem
    return f"{stem}-{1000 * utterance.offset:07.0f}" if utterance.offset else stem


def _flat(path: Path, root: Path) -> str:
    """A path from the root on as one word."""
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    return "-".join(part for part in inside.parts if part != path.anchor)
