"""A corpus described by manifests of JSON lines with NeMo's keys, for example:

{"audio_filepath": "clips/a.wav", "text": "one two", "speaker": "anna", "offset": 1.5, "duration": 2.25}
"""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

from asr_ablations.data.audio import AVERAGED, MOST_CHANNELS
from asr_ablations.data.corpus import Paths, faulty, indexed, text_of
from asr_ablations.data.utterances import Utterance
from asr_ablations.tools.checks import is_number, is_whole
from asr_verdicts.errors import UsageError
from asr_verdicts.files import Json
from asr_verdicts.text import clean, spelled_on_disk

IMPOSSIBLE = re.compile("[\0\ud800-\udfff]")
"""Matches NUL and lone surrogates, which JSON can contain but text files cannot."""


class Manifest(Paths):
    """A corpus described by manifests, with one or more files for each of train, validation and test.

    Paths of manifests are relative to `root`, by default the current folder. A set is named after its file, without the
    folder and the extension. Audio paths are relative to the manifest's folder. The keys audio_filepath and text are
    required. Optional keys:

    - id: id of the utterance, by default the name of the audio file
    - speaker: name of the speaker, ignored if `speaker_of` is set, which extracts speakers from the ids. For unknown
      speakers, comparisons treat utterances or audio files as independent units.
    - unit: kind and name of the independent unit for comparisons if it is not the speaker, such as "session 3"
    - offset, duration: start and length in seconds, by default the whole file
    - channel: number of the channel from 0, by default the mean of all channels
    """

    layout = "a file of JSON lines with audio_filepath and text"

    @indexed("path", "speaker_of")
    def find(self, split: str) -> list[Utterance]:
        path = self.path(split)
        lines = text_of(path).split("\n")
        utterances = [_parse_line(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]
        if not utterances:
            raise UsageError(f"no utterances in {path}")
        named = add_ids(utterances, path.parent)
        return self.add_speakers(named, lambda u: join_parts(u.audio.with_suffix(""), path.parent))


def _parse_line(manifest: Path, number: int, line: str) -> Utterance:
    where = f"{manifest.name}:{number}"
    try:
        entry: object = json.loads(line)
        if not isinstance(entry, dict):
            raise ValueError("expected an object")
    except (ValueError, RecursionError) as error:
        return faulty(where, manifest, f"not JSON: {error}")
    for key in ("audio_filepath", "text"):
        if not isinstance(entry.get(key), str):
            return faulty(where, manifest, f"no {key}: expected a string, found {entry.get(key)!r}")
    for key in ("audio_filepath", "text", "id", "speaker", "unit"):
        if IMPOSSIBLE.search(str(entry.get(key, ""))):
            return faulty(where, manifest, f"wrong {key}: contains NUL or half of a character: {entry[key]!r}")
    for key in ("offset", "duration"):
        if (value := entry.get(key)) is not None and not (is_number(value) and value >= 0):
            return faulty(where, manifest, f"wrong {key}: expected seconds, found {entry[key]!r}")
    if entry.get("channel") is not None and not (is_whole(entry["channel"], 0) and entry["channel"] < MOST_CHANNELS):
        return faulty(where, manifest, f"wrong channel: expected 0 to {MOST_CHANNELS - 1}, found {entry['channel']!r}")
    try:
        return _build_utterance(manifest, entry)
    except (RuntimeError, ValueError) as error:  # ~name if there is no such user, or /, which is not a file
        return faulty(where, manifest, f"missing file: {entry['audio_filepath']!r}: {error}")


def _build_utterance(manifest: Path, entry: Json) -> Utterance:
    audio = spelled_on_disk(manifest.parent / Path(entry["audio_filepath"]).expanduser())
    if not audio.name:
        raise ValueError("it is not a file name")
    offset, duration = entry.get("offset") or 0.0, entry.get("duration")
    id_, speaker = entry.get("id"), entry.get("speaker")
    spoken_by = "" if speaker is None else str(speaker)
    seconds = math.inf if duration is None else float(duration)
    text, unit = entry["text"], str(entry.get("unit") or "")
    channel = AVERAGED if entry.get("channel") is None else entry["channel"]
    return Utterance(clean(str(id_ or "")), spoken_by, audio, float(offset), seconds, text, unit=unit, channel=channel)


def add_ids(utterances: list[Utterance], folder: Path) -> list[Utterance]:
    """Return the utterances, with new ids for those that have none.

    A new id is the name of the audio file, followed by the start in ms unless it is 0, and by the channel if one is
    given. If several audio files have the same name, the id begins with the names of their folders.
    """
    folders: dict[str, set[Path]] = {}
    for u in utterances:
        folders.setdefault(u.audio.stem, set()).add(u.audio)
    named = []
    for u in utterances:
        ambiguous = len(folders[u.audio.stem]) > 1
        stem = join_parts(u.audio.with_suffix(""), folder) if ambiguous else u.audio.stem
        start = f"-{1000 * u.offset:07.0f}" if u.offset else ""
        channel = "" if u.channel == AVERAGED else f"-channel{u.channel}"
        named.append(u if u.id else replace(u, id=clean(f"{stem}{start}{channel}")))
    return named


def join_parts(path: Path, root: Path) -> str:
    """Join the parts of a path, relative to `root` if possible, with hyphens."""
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    return "-".join(part for part in inside.parts if part != path.anchor)
