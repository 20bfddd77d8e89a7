"""Any corpus as JSON lines, with NeMo's keys: audio_filepath, text, and optionally duration, offset, channel, speaker,
id, and unit.

{"audio_filepath": "clips/a.wav", "text": "one two", "speaker": "anna", "offset": 1.5, "duration": 2.25}
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from asr_ablations.data.audio import AVERAGED, MOST_CHANNELS
from asr_ablations.data.corpus import UNKNOWN_SPEAKERS, Paths, faulty, indexed, text_of
from asr_ablations.data.utterances import Utterance
from asr_ablations.tools.checks import is_number, is_whole
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json
from asr_verdicts.text import clean, spelled_on_disk

IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")
"""NUL and halves of characters, which JSON can hold and no file can."""


class Manifest(Paths):
    """A corpus of manifests; train, validation, test: one or several each, relative to `root`, or to the current folder
    where it is null. The name of a set is that of its manifest, without folder and ending.

    Audio paths are relative to the folder of their manifest. The id of an utterance is its key `id`, else the name of
    the audio file. Without a key `speaker` the speaker is unknown, unless `speaker_of` finds it in the id: utterances
    are then drawn in place of speakers. A key `unit` names what was drawn independently where speakers were not, by its
    kind and its name: "session 3". Times are in seconds. A key `channel` is counted from 0; without it channels are
    averaged.
    """

    def prepare(self) -> None:
        for path in self.paths.values():
            if not (self.root / path).exists():
                raise UsageError(
                    f"no manifest {self.root / path}: expected a file of JSON lines with audio_filepath and text"
                    f"; to check it once it is there: {self.prepare_command()}"
                )

    @indexed("path", "speaker_of")
    def find(self, split: str) -> list[Utterance]:
        path = self.path(split)
        lines = text_of(path).split("\n")
        utterances = [_utterance(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
        if not utterances:
            raise UsageError(f"no utterances in {path}")
        first = next(filter(str.strip, lines)).lstrip()
        if first[0] == "[" or all(u.fault.startswith(("not JSON", "no audio_filepath")) for u in utterances):
            expected = "JSON lines with audio_filepath, text, and maybe id, speaker, offset, duration, channel, unit"
            raise UsageError(f"{path}: {_kind(first)}; a manifest is {expected}")
        named = _with_ids(utterances, path.parent)
        return self.with_speakers(named, lambda u: _flat(u.audio.with_suffix(""), path.parent))

    def write(self, split: str, utterances: Iterable[Utterance]) -> None:
        """Write one line per utterance; the audio files stay where they are."""
        path = self.path(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            {"audio_filepath": str(u.audio.resolve()), "text": u.text, "id": u.id}
            | ({"speaker": u.speaker} if u.speaker else {})
            | ({"unit": u.unit} if u.unit and u.unit.partition(" ")[0] not in UNKNOWN_SPEAKERS else {})
            for u in utterances
        ]
        path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")


def _kind(line: str) -> str:
    """Return what a file with this first line is, if it is no manifest."""
    if line.startswith("["):
        return "a JSON list"
    if line.startswith("{") and (keys := re.findall(r'"(\w+)": ', line)):
        return f"lines with {', '.join(keys)}"
    return "a table" if re.search(r"[\t,;]", line) else "no JSON"


def _utterance(manifest: Path, number: int, line: str) -> Utterance:
    where = f"{manifest.name}:{number}"
    try:
        entry: object = json.loads(line)
        if not isinstance(entry, dict):
            raise ValueError("expected an object")
    except (ValueError, RecursionError) as error:
        return faulty(where, manifest, f"not JSON: {error}")
    for key in ("audio_filepath", "text"):
        if not isinstance(entry.get(key), str):
            return faulty(where, manifest, f"no {key}: a text is expected, found {entry.get(key)!r}")
    for key in ("audio_filepath", "text", "id", "speaker", "unit"):
        if IMPOSSIBLE.search(str(entry.get(key, ""))):
            return faulty(where, manifest, f"wrong {key}: NUL or half of a character, found {entry[key]!r}")
    for key in ("offset", "duration"):
        if not _seconds(entry.get(key)):
            return faulty(where, manifest, f"wrong {key}: seconds are expected, found {entry[key]!r}")
    if entry.get("channel") is not None and not (is_whole(entry["channel"], 0) and entry["channel"] < MOST_CHANNELS):
        return faulty(where, manifest, f"wrong channel: a number from 0 on is expected, found {entry['channel']!r}")
    try:
        return _checked(manifest, entry)
    except (RuntimeError, ValueError) as error:  # ~name without such a user, and /, which names no file
        return faulty(where, manifest, f"missing file: {entry['audio_filepath']!r}: {error}")


def _checked(manifest: Path, entry: Json) -> Utterance:
    audio = spelled_on_disk(manifest.parent / Path(entry["audio_filepath"]).expanduser())
    if not audio.name:
        raise ValueError("it names no file")
    offset, duration = entry.get("offset") or 0.0, entry.get("duration")
    id_, speaker = entry.get("id"), entry.get("speaker")
    spoken_by = "" if speaker is None else str(speaker)
    seconds = math.inf if duration is None else float(duration)
    text, unit = entry["text"], str(entry.get("unit") or "")
    channel = AVERAGED if entry.get("channel") is None else entry["channel"]
    return Utterance(clean(str(id_ or "")), spoken_by, audio, float(offset), seconds, text, unit=unit, channel=channel)


def _seconds(value: object) -> bool:
    return value is None or (is_number(value) and value >= 0)


def _with_ids(utterances: list[Utterance], folder: Path) -> list[Utterance]:
    """The utterances, each with an id. Where none is given it is the name of the file, with the start in ms where that
    is not 0, the channel if one is given, and the folders where files in several folders have the same name.
    """
    folders: dict[str, set[Path]] = {}
    for u in utterances:
        folders.setdefault(u.audio.stem, set()).add(u.audio)
    return [u if u.id else replace(u, id=_id(u, folder, len(folders[u.audio.stem]) > 1)) for u in utterances]


def _id(utterance: Utterance, folder: Path, ambiguous: bool) -> str:
    stem = _flat(utterance.audio.with_suffix(""), folder) if ambiguous else utterance.audio.stem
    start = f"-{1000 * utterance.offset:07.0f}" if utterance.offset else ""
    channel = "" if utterance.channel == AVERAGED else f"-channel{utterance.channel}"
    return clean(f"{stem}{start}{channel}")


def _flat(path: Path, root: Path) -> str:
    """The path below `root` as one word."""
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    return "-".join(part for part in inside.parts if part != path.anchor)
