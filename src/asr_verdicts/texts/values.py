"""Read hypotheses, references and speakers that a Python caller passes as strings or as paths of files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asr_verdicts.errors import UsageError
from asr_verdicts.text import clean
from asr_verdicts.texts.entries import Entry, Reading, Texts, unique
from asr_verdicts.texts.formats import read_texts
from asr_verdicts.texts.speakers import speakers_in
from asr_verdicts.texts.systems import files_of, join_texts, read_systems

Path_ = str | Path
# hypotheses of one system: a file, a pattern that matches one file per seed, or transcripts in order or by id
# A list of such values contains one value per seed.
Hypotheses = Path_ | Sequence[Any] | Mapping[str, str]


def seeds_of(value: Hypotheses, name: str, format_: str | None, spoken: Texts | None) -> list[Texts]:
    """Read the hypotheses of a system, and return one Texts per seed. name: the system's name, for error messages."""
    if isinstance(value, (str, Path)):
        return read_systems(files_of(name, str(value)), format_, spoken)
    if isinstance(value, Mapping):
        return [texts_of(value, name, format_)]
    values = list(value)
    if values and all(isinstance(item, str) for item in values) and not all(Path(item).is_file() for item in values):
        return [texts_of(values, name, format_)]
    if odd := [item for item in values if not isinstance(item, (str, Path, Mapping, Sequence))]:
        raise UsageError(f"{name}: expected transcripts or files, found {str(odd[0])[:60]!r}")
    seeds: list[Texts] = []
    for number, item in enumerate(values):
        if isinstance(item, (str, Path)):
            seeds += read_systems([Path(item)], format_, spoken)
        else:
            seeds.append(texts_of(item, f"{name}, seed {number}", format_))
    if not seeds:
        raise UsageError(f"{name}: expected transcripts or files, found none")
    return seeds


def texts_of(value: Any, name: str, format_: str | None, references: bool = False) -> Texts:
    """Read transcripts from a file, from a dict by id, or from a list, which gets the ids 1, 2, …"""
    if isinstance(value, (str, Path)):
        return join_texts([read_texts(path, format_, Reading(references)) for path in files_of(name, str(value))])
    by_id = value if isinstance(value, Mapping) else {str(place): text for place, text in enumerate(value, start=1)}
    for id_, text in by_id.items():
        if not isinstance(text, str):
            raise UsageError(f"{name}: {id_}: expected text, found {str(text)[:60]!r}")
    if not by_id:
        raise UsageError(f"{name}: expected transcripts, found none")
    entries = [(0, Entry(str(id_), text)) for id_, text in by_id.items()]
    return Texts(name, "texts", unique(Path(name), entries))


def speakers_of_texts(
    value: Path_ | Sequence[str] | Mapping[str, str] | None,
    spoken: Texts | None,
    systems: Mapping[str, Mapping[str, Sequence[Texts]]],
    set_: str,
) -> Mapping[str, str] | None:
    """Return speakers by id, from a dict, an utt2spk file, or a list in the references' order; None if not given."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {clean(str(id_)): clean(str(speaker)) for id_, speaker in value.items()}
    if isinstance(value, (str, Path)):
        return speakers_in(Path(value))
    first = spoken or next(iter(systems.values()))[set_][0]
    if len(value) != len(first.entries):
        raise UsageError(f"speakers: {len(value)} for {len(first.entries)} utterances; expected one for each")
    return dict(zip(first.entries, (clean(str(speaker)) for speaker in value), strict=True))
